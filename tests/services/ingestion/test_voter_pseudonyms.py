"""The mapping of a form to a command."""

import pytest

from libs.contracts.pseudonyms import content_of
from libs.tally.events import Rating
from services.ingestion.vote_forms import VoteForm
from services.ingestion.voter_pseudonyms import command

SECRET = bytes(32)


def a_form(**members: object) -> VoteForm:
    return VoteForm.model_validate({"participant_key": "a", "voter_id": "v"} | members)


def test_the_form_names_the_address_before_the_proxy() -> None:
    named = command("c", SECRET, a_form(ip="198.51.100.7"), "id", "203.0.113.9")
    assert named.address == command("c", SECRET, a_form(), "id", "198.51.100.7").address
    assert command("c", SECRET, a_form(), "id", None).address is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2001:db8::1", "2001:db8::ffff:1"),
        ("::ffff:198.51.100.7", "198.51.100.7"),
        ("2001:DB8::1", "2001:db8:0:0:1::"),
    ],
)
def test_one_network_is_one_address(one: str, other: str) -> None:
    first, second = (command("c", SECRET, a_form(ip=ip), "id", None).address for ip in (one, other))
    assert first == second


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
