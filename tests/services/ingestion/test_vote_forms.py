"""The form of a vote: a rejected one names all invalid members, another becomes a command."""

from typing import Any

import orjson
import pytest

from libs.contracts.pseudonyms import content_of
from libs.contracts.validation import ValidationFailed
from libs.tally.events import Rating
from services.ingestion.vote_forms import VoteForm, check_vote, command, parse_vote

FAULTY: dict[str, Any] = {"participant_key": 7, "unheard": True, "count": 0}
POINTERS = {"/participant_key", "/unheard", "/count", ""}
SECRET = bytes(32)


def test_a_vote_alone_and_one_of_a_batch_name_faults_of_all_kinds() -> None:
    with pytest.raises(ValidationFailed) as alone:
        parse_vote(orjson.dumps(FAULTY))
    among = check_vote(FAULTY)
    for refused in (alone.value, among):
        assert isinstance(refused, ValidationFailed)
        assert {each["pointer"] for each in refused.data["errors"]} == POINTERS
        assert len(refused.data["errors"]) == len(POINTERS)


def test_a_rating_that_is_no_object_is_told_its_members() -> None:
    with pytest.raises(ValidationFailed, match="/rating: must be an object with the members sub_ratings, value"):
        parse_vote(b'{"participant_key": "p", "voter_id": "v", "rating": 4}')


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"extra": 1}, "/extra"),
        ({"count": 0}, "/count"),
        ({"count": 1_000_001}, "/count"),
        ({"count": "1"}, "/count"),
        ({"count": 1.5}, "/count"),
        ({"count": True}, "/count"),
        ({"source": "c-gold"}, "/source"),
        ({"platform": "tv"}, "/platform"),
        ({"ip": "300.1.1.1"}, "/ip"),
        ({"vote_id": "with space"}, "/vote_id"),
        ({"vote_id": ""}, "/vote_id"),
        ({"vote_id": "x" * 65}, "/vote_id"),
        ({"vote_id": "line\n"}, "/vote_id"),
        ({"voter_id": ""}, "/voter_id"),
        ({"voter_id": "bell\x07"}, "/voter_id"),
        ({"voter_id": "é" * 129}, "/voter_id"),
        ({"voter_id": None}, ""),
        ({"anonymous_id": "v"}, ""),
        ({"participant_key": 1}, "/participant_key"),
        ({"rating": {"value": "4"}}, "/rating/value"),
        ({"rating": {"sub_ratings": {"song": 1}}}, "/rating/value"),
        ({"rating": {"value": 4, "stars": 1}}, "/rating/stars"),
        ({"positions": {"1": 5}}, "/positions/1"),
    ],
)
def test_each_member_is_checked_and_named(change: dict[str, Any], pointer: str) -> None:
    with pytest.raises(ValidationFailed) as refused:
        parse_vote(orjson.dumps({"participant_key": "p", "voter_id": "v"} | change))
    assert [each["pointer"] for each in refused.value.data["errors"]] == [pointer]


def a_form(**members: object) -> VoteForm:
    return VoteForm.model_validate({"participant_key": "a", "voter_id": "v"} | members)


def test_the_form_names_the_address_before_the_proxy() -> None:
    named = command("c", SECRET, a_form(ip="198.51.100.7"), "id", "203.0.113.9")
    assert named.address == command("c", SECRET, a_form(), "id", "198.51.100.7").address
    first, second = (command("c", SECRET, a_form(ip=ip), "id", None) for ip in ("2001:DB8::1", "2001:db8:0:0:1::"))
    assert first.address == second.address != named.address
    assert command("c", SECRET, a_form(), "id", None).address is None


def test_a_rating_is_kept_to_the_millionth() -> None:
    form = a_form(rating={"value": 4.3333333, "sub_ratings": {"b": 0.1, "a": 2}})
    asked = command("c", SECRET, form, "id", None)
    assert asked.rating == Rating(4_333_333, (("a", 2_000_000), ("b", 100_000)))


def test_what_is_written_out_is_the_same_content_as_what_is_left_out() -> None:
    plain = command("c", SECRET, a_form(), "id", None)
    spelled = command("c", SECRET, a_form(count=1, source="c-free", platform="ios", ip="198.51.100.7"), "id", None)
    assert plain.content == spelled.content == content_of(plain.voter, "c-free", "a", 1)
    ordered = a_form(participant_key=None, positions={"2": "b", "1": "a"})
    again = a_form(participant_key=None, positions={"1": "a", "2": "b"})
    assert command("c", SECRET, ordered, "id", None).content == command("c", SECRET, again, "id", None).content
    other = a_form(rating={"value": 4.5})
    assert len({plain.content, *(command("c", SECRET, f, "id", None).content for f in (ordered, other))}) == 3
