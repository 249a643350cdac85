"""A rejected vote names all invalid members."""

from typing import Any

import orjson
import pytest

from libs.contracts.validation import ValidationFailed
from services.ingestion.batch_parsing import NDJSON, parse_batch
from services.ingestion.vote_forms import check_vote, parse_vote

FAULTY: dict[str, Any] = {"participant_key": 7, "unheard": True, "count": 0}
POINTERS = {"/participant_key", "/unheard", "/count", ""}


def test_a_vote_alone_and_one_of_a_batch_name_faults_of_all_kinds() -> None:
    with pytest.raises(ValidationFailed) as alone:
        parse_vote(orjson.dumps(FAULTY))
    among = check_vote(FAULTY)
    for refused in (alone.value, among):
        assert isinstance(refused, ValidationFailed)
        assert {each["pointer"] for each in refused.data["errors"]} == POINTERS
        assert len(refused.data["errors"]) == len(POINTERS)


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


@pytest.mark.parametrize("number", [b"1e400", b"1" + b"0" * 30, b"NaN", b"Infinity"])
def test_a_number_that_is_none_spoils_its_own_line_alone(number: bytes) -> None:
    good = b'{"participant_key": "p", "voter_id": "v"}'
    bad = b'{"participant_key": "p", "voter_id": "v", "count": ' + number + b"}"
    first, spoilt, last = (item() for item in parse_batch(NDJSON, b"\n".join([good, bad, good])))
    assert isinstance(spoilt.vote, Exception)
    assert not isinstance(first.vote, Exception)
    assert not isinstance(last.vote, Exception)


def test_a_misspelt_member_of_a_vote_comes_with_the_likely_name() -> None:
    with pytest.raises(
        ValidationFailed, match="/particpant_key: is not a known member; did you mean participant_key"
    ):
        parse_vote(b'{"particpant_key": "p", "voter_id": "v"}')
