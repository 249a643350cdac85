"""Hostile votes and batches: any bytes give votes or errors."""

from contextlib import suppress
from typing import Final

import orjson
from hypothesis import example, given
from hypothesis import strategies as st

from libs.contracts.purchase_events import PurchasePlace
from libs.contracts.validation import ValidationFailed, checked
from libs.tally.errors import TallyError
from libs.web.errors import is_for_the_caller, problem_response
from services.ingestion.batch_parsing import NDJSON, parse_batch
from services.ingestion.purchase_routes import TOKEN, _place, _token
from services.ingestion.source_forms import ReportForm
from services.ingestion.vote_endpoints import _item_answer, _vote_id
from services.ingestion.vote_forms import VoteForm, parse_vote
from services.ingestion.voter_pseudonyms import command
from tests.support.hostile import mutated, mutated_text

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
        items = parse_batch(media_type, body, key)
    except TallyError as refused:
        check(refused, "malformed_json", "validation_failed", "payload_too_large")
        return
    for ballot in (item() for item in items):
        if isinstance(ballot.vote, TallyError):
            assert orjson.dumps(_item_answer(ballot.vote, ballot.vote_id))
        else:
            assert command("c", b"s" * 32, ballot.vote, ballot.vote_id or "", None).vote_id == ballot.vote_id


def test_an_item_of_half_a_character_spoils_no_answer() -> None:
    items = parse_batch(JSON, b'{"votes": [' + LONE + b"," + LINES[0] + b"]}")
    first, second = (item() for item in items)
    assert isinstance(first.vote, TallyError)
    assert first.vote_id is None
    assert isinstance(second.vote, VoteForm)


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
