"""Hostile votes and batches: any bytes give votes or errors, early, in few words, without delaying others."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from libs.contracts.catalogue_events import ApiKey
from libs.contracts.limits import VOTE_BODY
from libs.contracts.purchase_events import PurchasePlace
from libs.contracts.validation import MAX_PROBLEMS, ValidationFailed, checked
from libs.tally.errors import TallyError
from libs.web.errors import PayloadTooLarge, is_for_the_caller, problem_response
from services.ingestion import vote_endpoints
from services.ingestion.batch_parsing import MAX_BATCH, MAX_LINES, NDJSON, Ballot, parse_item, split_batch
from services.ingestion.purchase_routes import TOKEN, _place, _token
from services.ingestion.source_forms import ReportForm
from services.ingestion.vote_endpoints import _item_answer, _namer, _vote_id
from services.ingestion.vote_forms import VoteForm, check_vote, command, parse_vote
from tests.support.builders.hostile import mutated, mutated_text

SCOPE: Final = {"type": "http", "path": "/contests/c/votes", "headers": []}
JSON: Final = "application/json"
VOTES: Final = [
    {"vote_id": "v1", "participant_key": "p1", "voter_id": "voter-1", "platform": "ios", "ip": "2001:db8::1"},
    {"anonymous_id": "a", "participant_key": "p1", "rating": {"value": 4.5, "sub_ratings": {"s": 4}}},
    {"voter_id": "v", "positions": {"first": "p2", "second": "p1"}, "source": "c-paid", "count": 3},
]
LINES: Final = [orjson.dumps(vote) for vote in VOTES]
REPORT: Final = {
    "report_id": "r",
    "reported_at": "2026-05-01T18:00:00Z",
    "counts": [{"mapped_id": "A", "count": 1}],
}
LONE: Final = b'{"vote_id": "\\ud800", "x": [' + b"1," * 1_001 + b"1]}"
"""Half a character in an id, where another fault is found first."""


def check(refused: TallyError, *codes: str) -> None:
    """A refusal can be sent to its caller, and is one of these."""
    assert is_for_the_caller(refused)
    answer = problem_response(refused, SCOPE | {"state": {}})
    assert 400 <= answer.status_code < 500
    assert orjson.loads(bytes(answer.body))["code"] in codes


@given(mutated(*LINES))
@example(b'{"voter_id": "v", "rating": {"value": NaN}}')
@example(b'{"voter_id": "\\ud800"}')
@example(b'{"voter_id": "v", "count": ' + b"9" * 5_000 + b"}")
@example(b"[" * 100_000)
def test_any_bytes_are_a_vote_or_a_refusal(body: bytes) -> None:
    try:
        form = parse_vote(body)
    except TallyError as refused:
        check(refused, "malformed_json", "validation_failed")
        return
    assert parse_vote(form.model_dump_json(exclude_unset=True).encode()) == form
    assert command("c", b"s" * 32, form, form.vote_id or "made", None).contest == "c"


@given(
    st.sampled_from([JSON, NDJSON]),
    mutated(*LINES, b"\n".join(LINES), b'{"votes": [' + b",".join(LINES) + b"]}", most=3),
    mutated(b"key-1").map(lambda key: key.decode("latin-1")) | st.none(),
)
@example(JSON, b'{"votes": [' + LINES[0] + b"," + LONE + b"]}", None)
@example(JSON, b'{"votes": [{"voter_id": "v", "rating": {"value": 1e999}}]}', None)
@example(JSON, b'{"votes": [' + b"9" * 5_000 + b"]}", None)
@example(NDJSON, b"\xff\n" + LINES[0], None)
def test_any_bytes_are_a_batch_whose_answer_can_be_sent(media_type: str, body: bytes, key: str | None) -> None:
    try:
        items, name = split_batch(media_type, body), _namer(key)
    except TallyError as refused:
        check(refused, "malformed_json", "validation_failed", "payload_too_large")
        return
    for ballot in map(parse_item, items):
        if isinstance(ballot.vote, TallyError):
            assert orjson.dumps(_item_answer(ballot.vote, ballot.vote_id))
        else:
            vote = name("c", b"s" * 32, None, ballot.vote)
            assert vote.vote_id
            assert ballot.vote_id in (None, vote.vote_id)


@given(mutated_text("abc-123", "v1"))
def test_an_idempotency_key_is_a_vote_s_id_or_refused(key: str) -> None:
    form = VoteForm(participant_key="p", voter_id="v")
    try:
        assert _vote_id(form, key) == key
    except TallyError as refused:
        check(refused, "validation_failed")


@given(mutated(orjson.dumps(REPORT)))
def test_any_object_is_a_report_or_a_refusal(body: bytes) -> None:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return
    if not isinstance(value, dict):
        return
    try:
        checked(ReportForm, value).report()
    except ValidationFailed as refused:
        check(refused, "validation_failed")


@given(st.integers(0, 10**16 - 1), st.from_regex(r"[A-Za-z0-9_-]{22}", fullmatch=True))
def test_a_place_in_a_list_of_purchases_is_read_as_it_was_written(at: int, key: str) -> None:
    place = PurchasePlace(at, key)
    assert _place(_token(place)) == place


@given(mutated_text(_token(PurchasePlace(5, "a" * 22))))
def test_another_place_is_refused(token: str) -> None:
    with suppress(ValidationFailed):
        assert TOKEN.fullmatch(":".join(map(str, _place(token) or ())))


GOOD: dict[str, Any] = {"voter_id": "v", "participant_key": "p"}


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
            split_batch(form, body)
        return
    [ballot] = map(parse_item, split_batch(form, body))
    assert refusal(ballot).code == "payload_too_large"
    assert ballot.vote_id is None
    assert len(orjson.dumps(refusal(ballot).data)) < 200


@pytest.mark.parametrize(
    ("sent", "named"),
    [
        (GOOD | many(100), MAX_PROBLEMS),
        (GOOD | many(5_000), 1),
        (GOOD | {"rating": {"value": 1, "sub_ratings": many(501)}}, 1),
        ({"voter_id": "v", "positions": dict.fromkeys(many(101), 1)}, 1),
    ],
    ids=["many members", "too many members", "sub-ratings", "positions"],
)
def test_of_many_faults_the_first_are_named_and_a_large_object_is_one(sent: dict[str, Any], named: int) -> None:
    """Its members are not looked at one by one."""
    with pytest.raises(TallyError) as alone:
        parse_vote(orjson.dumps(sent))
    within = check_vote(sent)
    assert isinstance(within, TallyError)
    for refused in (alone.value, within):
        errors = refused.data["errors"]
        assert (refused.code, len(errors)) == ("validation_failed", named)
        assert named > 1 or "members" in errors[0]["message"]


def test_a_vote_as_large_as_it_may_be_is_read() -> None:
    ratings = {"x" * 100 + str(at): 1.5 for at in range(500)}
    item = orjson.dumps({**GOOD, "rating": {"value": 1, "sub_ratings": ratings}})
    assert VOTE_BODY * 0.8 < len(item) < VOTE_BODY
    for form, body in ((JSON, b'{"votes": [%s]}' % item), (NDJSON, item)):
        [ballot] = map(parse_item, split_batch(form, body))
        assert not isinstance(ballot.vote, TallyError)


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
        split_batch(form, body)


@pytest.mark.parametrize(
    ("form", "bad", "problem"),
    [
        (JSON, b"[" * 200 + b"]" * 200, "malformed_json"),
        (JSON, LONE, "malformed_json"),
        (JSON, b'{"voter_id": "v", "rating": {"value": 1e400}}', "malformed_json"),
        (NDJSON, b'{"voter_id": "v", "count": 1e400}', "malformed_json"),
        (NDJSON, b'{"voter_id": "v", "count": %s}' % (b"9" * 30), "validation_failed"),
        (NDJSON, b'{"voter_id": "v", "count": NaN}', "malformed_json"),
        (NDJSON, b'{"voter_id": "v", "count": Infinity}', "malformed_json"),
    ],
    ids=["nested deeply", "half a character", "1e400 in JSON", "1e400", "30 digits", "NaN", "Infinity"],
)
def test_a_bad_item_spoils_itself_alone(form: str, bad: bytes, problem: str) -> None:
    good = orjson.dumps(GOOD)
    items = good, bad, good
    body = b"\n".join(items) if form == NDJSON else b'{"votes": [%s]}' % b",".join(items)
    first, spoilt, last = map(parse_item, split_batch(form, body))
    assert (refusal(spoilt).code, spoilt.vote_id) == (problem, None)
    assert isinstance(first.vote, VoteForm)
    assert isinstance(last.vote, VoteForm)


async def test_others_have_their_turn_while_a_batch_is_read() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(other())
    items = split_batch(NDJSON, b"\n".join([orjson.dumps(GOOD | many(900))] * 200))
    key = ApiKey("a", "k", "", ("votes:write",), 0)
    ballots = await vote_endpoints.read_ballots(key, items)
    assert len(ballots) == 200
    beside.cancel()
    assert turns >= 200 / vote_endpoints.TURN
