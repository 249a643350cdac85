"""Expensive JSON: bounded depth, number of values and number of reported problems."""

import orjson
import pytest

from libs.catalogue.resource_table import CONTESTS
from libs.catalogue.schemas.base import unknown_members
from libs.contracts.validation import MAX_FAULTS, MAX_PROBLEMS, ValidationFailed
from libs.web.door.request_parsing import MAX_DEPTH, MAX_VALUES, parse_json
from libs.web.errors import MalformedJson, PayloadTooLarge


@pytest.mark.parametrize(
    "body", [b"[" + b"[]," * 300_000 + b"1]", orjson.dumps({str(n): n for n in range(80_000)})]
)
def test_a_body_of_too_many_values_is_refused(body: bytes) -> None:
    with pytest.raises(PayloadTooLarge):
        parse_json(body)


def test_a_body_may_hold_as_much_as_it_says() -> None:
    assert len(parse_json(orjson.dumps([1] * (MAX_VALUES - 1)))) == MAX_VALUES - 1
    assert parse_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    for depth in (MAX_DEPTH + 2, 1_000, 100_000):
        with pytest.raises(MalformedJson):
            parse_json(b"[" * depth + b"]" * depth)


@pytest.mark.parametrize("wrong", [MAX_PROBLEMS + 1, MAX_FAULTS, MAX_FAULTS + 1, MAX_VALUES])
def test_a_record_with_many_faults_is_refused_in_a_few_words(wrong: int) -> None:
    named = MAX_PROBLEMS if wrong <= MAX_FAULTS else 1
    with pytest.raises(ValidationFailed) as refused:
        CONTESTS.validated({"tags": [1] * wrong})
    assert len(refused.value.data["errors"]) == named
    patch = {"tags": [1] * (wrong - 1), "no_member": None}
    if wrong <= MAX_FAULTS:
        assert [each.pointer for each in unknown_members(CONTESTS.schema, patch)] == ["/no_member"]
    else:
        with pytest.raises(ValidationFailed):
            unknown_members(CONTESTS.schema, patch)
