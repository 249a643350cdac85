"""Expensive JSON: bounded depth, number of values and number of reported problems."""

import time
from contextlib import suppress

import orjson
import pytest
from starlette.requests import Request
from starlette.types import Message

from libs.catalogue.resource_table import CONTESTS
from libs.catalogue.schemas.base import unknown_members
from libs.contracts.limits import FORM_FIELDS as MAX_FORM_FIELDS
from libs.contracts.validation import MAX_FAULTS, MAX_PROBLEMS, ValidationFailed
from libs.legacy.bodies import read_parameters
from libs.web.door.request_parsing import MAX_DEPTH, MAX_VALUES, open_form, parse_json
from libs.web.errors import MalformedJson, PayloadTooLarge
from tests.support.loop_turns import LONGEST_S, measured_turns, slowness

FORM = b"application/x-www-form-urlencoded"
MULTIPART = b"multipart/form-data; boundary=x"


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


async def test_large_bodies_are_parsed_beside_other_requests() -> None:
    body = orjson.dumps({str(number): "a" for number in range(MAX_VALUES - 1)})
    urlencoded = b"&".join(b"tags=%d" % number for number in range(MAX_FORM_FIELDS))
    text = b"title=" + b"%41" * 300_000
    for kind, sent in ((b"application/json", body), (FORM, urlencoded), (FORM, text), (FORM, b"&" * (1 << 20))):
        with measured_turns() as turns, suppress(PayloadTooLarge):
            await read_parameters(request_of(kind, sent), {"tags": {"type": "array", "items": {}}}, 1 << 20)
        assert turns.longest_s < LONGEST_S * slowness()


async def test_a_multipart_form_is_parsed_in_turns() -> None:
    head = b'--x\r\nContent-Disposition: form-data; name="src"; filename="a"\r\n\r\n'
    body = head + b"\r\n--" * 300_000 + b"\r\n--x--\r\n"
    with measured_turns() as turns:
        async with open_form(request_of(MULTIPART, body), 10 << 20, ("multipart/form-data",), 9) as form:
            assert form["src"]
    assert turns.longest_s < LONGEST_S * slowness()


def request_of(kind: bytes, body: bytes) -> Request:
    async def receive() -> Message:
        return {"type": "http.request", "body": body}

    return Request({"type": "http", "headers": [(b"content-type", kind)]}, receive)


def test_many_unknown_members_are_refused_before_each_is_validated() -> None:
    members = {f"m{number}": number for number in range(MAX_VALUES)}
    began = time.thread_time()
    with pytest.raises(ValidationFailed, match="more than 1,000 members"):
        CONTESTS.validated(members)
    assert time.thread_time() - began < LONGEST_S * slowness() / 2
