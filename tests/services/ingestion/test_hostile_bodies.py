"""Expensive bodies: rejected early, with short errors, without delaying others."""

import asyncio
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from libs.contracts.catalogue_events import ApiKey
from libs.contracts.validation import MAX_PROBLEMS
from libs.tally.errors import TallyError
from libs.web.errors import PayloadTooLarge
from services.ingestion import vote_endpoints
from services.ingestion.batch_parsing import MAX_BATCH, MAX_LINES, NDJSON, Ballot, parse_batch
from services.ingestion.vote_forms import MAX_VOTE_BYTES, check_vote, parse_vote

GOOD: dict[str, Any] = {"voter_id": "v", "participant_key": "p"}
JSON = "application/json"


KEY = ApiKey("a", "k", "", ("votes:write",), 0)


def refusal(ballot: Ballot) -> TallyError:
    assert isinstance(ballot.vote, TallyError)
    return ballot.vote


def many(wrong: int) -> dict[str, Any]:
    return {str(at): "x" for at in range(wrong)}


HOSTILE: dict[str, Callable[[], dict[str, Any]]] = {
    "sub-ratings": lambda: {**GOOD, "rating": {"value": 1, "sub_ratings": many(300_000)}},
    "positions": lambda: {"voter_id": "v", "positions": dict.fromkeys(many(300_000), 1)},
    "members": lambda: {**GOOD, **many(300_000)},
    "lists": lambda: {**GOOD, "vote_id": [[]] * 300_000},
    "text": lambda: {**GOOD, "vote_id": "x" * 4_000_000},
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("form", [JSON, NDJSON])
def test_a_vote_of_megabytes_is_refused_in_a_few_words(name: str, form: str) -> None:
    item = orjson.dumps(HOSTILE[name]())
    body = item if form == NDJSON else b'{"votes": [%s]}' % item
    if name == "lists" and form == JSON:
        with pytest.raises(PayloadTooLarge):
            parse_batch(form, body)
        return
    (read,) = parse_batch(form, body)
    ballot = read()
    assert refusal(ballot).code == "payload_too_large"
    assert ballot.vote_id is None
    assert len(orjson.dumps(refusal(ballot).data)) < 200


@pytest.mark.parametrize("wrong", [100, 5_000])
def test_of_many_faults_the_first_are_named(wrong: int) -> None:
    sent = GOOD | many(wrong)
    with pytest.raises(TallyError) as alone:
        parse_vote(orjson.dumps(sent))
    within = check_vote(sent)
    assert isinstance(within, TallyError)
    for refused in (alone.value, within):
        assert refused.code == "validation_failed"
        assert len(refused.data["errors"]) == (MAX_PROBLEMS if wrong < 1_000 else 1)


def test_members_of_a_large_object_are_not_looked_at_one_by_one() -> None:
    for sent in (
        {**GOOD, "rating": {"value": 1, "sub_ratings": many(501)}},
        {"voter_id": "v", "positions": dict.fromkeys(many(101), 1)},
    ):
        refused = check_vote(sent)
        assert isinstance(refused, TallyError)
        (problem,) = refused.data["errors"]
        assert "members at most" in problem["message"]


def test_a_vote_as_large_as_it_may_be_is_read() -> None:
    ratings = {"x" * 100 + str(at): 1.5 for at in range(500)}
    item = orjson.dumps({**GOOD, "rating": {"value": 1, "sub_ratings": ratings}})
    assert MAX_VOTE_BYTES * 0.8 < len(item) < MAX_VOTE_BYTES
    for form, body in ((JSON, b'{"votes": [%s]}' % item), (NDJSON, item)):
        (read,) = parse_batch(form, body)
        assert not isinstance(read().vote, TallyError)


@pytest.mark.parametrize(
    ("form", "body"),
    [
        (NDJSON, b"\n" * (MAX_LINES + 1)),
        (NDJSON, b"{}\n" * (MAX_BATCH + 1)),
        (JSON, b'{"votes": [' + b"[]," * 2_000_000 + b"[]]}"),
        (JSON, b'{"votes": [' + b"1," * MAX_BATCH + b"1]}"),
    ],
)
def test_a_batch_of_too_many_is_refused_whole(form: str, body: bytes) -> None:
    with pytest.raises(PayloadTooLarge):
        parse_batch(form, body)


def test_an_item_that_nests_deeply_spoils_itself_alone() -> None:
    deep = b"[" * 200 + b"]" * 200
    items = parse_batch(JSON, b'{"votes": [%s, %s]}' % (deep, orjson.dumps(GOOD)))
    assert refusal(items[0]()).code == "malformed_json"
    assert not isinstance(items[1]().vote, TallyError)


async def test_others_have_their_turn_while_a_batch_is_read() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(other())
    items = parse_batch(NDJSON, b"\n".join([orjson.dumps(GOOD | many(900))] * 200))
    ballots = await vote_endpoints.read_ballots(KEY, items)
    assert len(ballots) == 200
    beside.cancel()
    assert turns >= 200 / vote_endpoints.TURN
