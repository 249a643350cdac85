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


def test_a_vote_of_nobody_names_that_once() -> None:
    with pytest.raises(ValidationFailed) as refused:
        parse_vote(b'{"participant_key": "p"}')
    assert [each["pointer"] for each in refused.value.data["errors"]] == [""]


@pytest.mark.parametrize("number", [b"1e400", b"1" + b"0" * 30, b"NaN", b"Infinity"])
def test_a_number_that_is_none_spoils_its_own_line_alone(number: bytes) -> None:
    good = b'{"participant_key": "p", "voter_id": "v"}'
    bad = b'{"participant_key": "p", "voter_id": "v", "count": ' + number + b"}"
    first, spoilt, last = (item() for item in parse_batch(NDJSON, b"\n".join([good, bad, good])))
    assert isinstance(spoilt.vote, Exception)
    assert not isinstance(first.vote, Exception)
    assert not isinstance(last.vote, Exception)
