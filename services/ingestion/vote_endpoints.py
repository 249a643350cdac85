"""`POST /contests/<key>/votes` and `/votes/batch`: the hot path; single votes mostly without ASGI."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from typing import Any

import orjson

from libs.concurrency.turns import off_loop
from libs.contracts.catalogue_events import ApiKey
from libs.contracts.limits import BATCH_BODY, VOTE_BODY
from libs.contracts.position_token import PositionTokens
from libs.contracts.validation import Problem, ValidationFailed
from libs.tally.errors import IdempotencyKeyReused, Overloaded, TallyError
from libs.tally.time_conversion import timestamp
from libs.tally.vote_commands import CastVote
from libs.telemetry.metrics import HTTP_REFUSALS, VOTES_IN_FLIGHT
from libs.voting.protocol.shared_steps import Accepted, Outcome
from libs.voting.service import VotingService, count
from libs.web.door.auth import Authenticator, Headers, header, require
from libs.web.door.client_address import Proxies
from libs.web.door.request_parsing import declared_size, load_json, require_json
from libs.web.errors import Forbidden, is_for_the_caller, log_cause, problem_response, status_of
from libs.web.server.hot_requests import HotRequest, Reply, reply_of
from services.ingestion.batch_parsing import NDJSON, Ballot, BatchIds, id_in, parse_item, split_batch
from services.ingestion.vote_forms import (
    VOTE_ID_TEXT,
    VoteForm,
    check_vote,
    command,
    new_vote_id,
    parse_vote,
)

REFUSED = HTTP_REFUSALS.labels("in_flight")
TURN = 10
"""Votes of a batch that are parsed before yielding to other requests."""
SLICE = 500
"""Votes of a batch that are processed at once: some 10 ms of a worker's time at each step."""


class Voting:
    """The two endpoints, with a limit on the votes and batches in flight."""

    def __init__(
        self,
        auth: Authenticator,
        votes: VotingService,
        positions: PositionTokens,
        max_in_flight: int,
        max_batch_bytes: int,
        proxies: Proxies,
    ) -> None:
        self._auth = auth
        self._votes = votes
        self._positions = positions
        self._max_in_flight = max_in_flight
        self._proxies = proxies
        self._in_flight = 0
        VOTES_IN_FLIGHT.set_function(lambda: self._in_flight)
        self._max_batch_bytes = max_batch_bytes
        self._batch_bytes = 0

    async def cast(self, request: HotRequest) -> Reply:
        """Cast one vote. Its errors name the vote's id."""
        scope, vote_id = request.scope, None
        headers = scope["headers"]
        try:
            key = self._auth.known(scope) or await self._auth.authenticate(scope)
            require(key, "votes:write")
            require_json(headers)
            if not self._positions.is_loaded:
                await self._positions.load()
            form, vote_id = _read_vote(key, headers, await request.read(VOTE_BODY))
            contest = scope["path_params"]["contest_key"]
            secret = await self._votes.contests.secret(key.account, contest)
            vote = command(contest, secret, form, vote_id, self._proxies.end_user(scope))
            [accepted] = await self._take(key.account, [vote])
            if isinstance(accepted, TallyError):
                raise accepted
        except TallyError as error:
            count([error])
            if not is_for_the_caller(error):
                raise
            if status_of(error) == HTTPStatus.SERVICE_UNAVAILABLE:
                with suppress(TallyError):
                    await request.read(VOTE_BODY)
            named = {"vote_id": vote_id} if vote_id is not None else _named(headers, request.received)
            return reply_of(problem_response(error, scope, **named))
        count([accepted])
        return self._reply(accepted)

    def _reply(self, accepted: Accepted) -> Reply:
        """Return the reply to a vote in the log."""
        vote = accepted.command
        body = orjson.dumps(_body(accepted))
        headers = [
            (b"content-type", b"application/json"),
            (b"location", f"/contests/{vote.contest}/votes/{vote.vote_id}".encode()),
            (b"tally-position", self._positions.encode({accepted.partition: accepted.offset + 1}).encode()),
            _length(body),
        ]
        if accepted.replayed:
            headers.append((b"idempotent-replayed", b"true"))
        return Reply(200 if accepted.replayed else 201, headers, body)

    async def cast_batch(self, request: HotRequest) -> Reply:
        """Cast a batch in slices, so that a large one does not delay other requests for long."""
        headers = request.scope["headers"]
        try:
            key = self._auth.known(request.scope) or await self._auth.authenticate(request.scope)
            require(key, "votes:write")
            await self._positions.load()
            media_type = require_json(headers, NDJSON)
            with self._batch_of(declared_size(headers, BATCH_BODY)):
                return await self._cast_items(request, key, media_type)
        except TallyError as error:  # a batch that is refused as a whole counts as one
            count([error])
            raise

    async def _cast_items(self, request: HotRequest, key: ApiKey, media_type: str) -> Reply:
        scope, body = request.scope, await request.read(BATCH_BODY)
        items = await off_loop(len(body), split_batch, media_type, body)
        contest = scope["path_params"]["contest_key"]
        secret = await self._votes.contests.secret(key.account, contest)
        name = _namer(header(scope["headers"], b"idempotency-key"))
        vote_of = partial(name, contest, secret, self._proxies.end_user(scope))
        answers: list[dict[str, Any]] = []
        positions: dict[int, int] = {}
        for at in range(0, len(items), SLICE):
            outcomes = await self._cast_slice(key, items[at : at + SLICE], vote_of)
            count(outcome for outcome, _ in outcomes)
            for outcome, vote_id in outcomes:
                answers.append(_item_answer(outcome, vote_id))
                if isinstance(outcome, Accepted):
                    positions[outcome.partition] = max(positions.get(outcome.partition, 0), outcome.offset + 1)
        sent = [(b"content-type", b"application/json")]
        if positions:
            sent.append((b"tally-position", self._positions.encode(positions).encode()))
        result = orjson.dumps({"results": answers})
        return Reply(200, [*sent, _length(result)], result)

    async def _cast_slice(
        self, key: ApiKey, items: Sequence[bytes], vote_of: Callable[[VoteForm], CastVote]
    ) -> list[tuple[Outcome, str | None]]:
        """Return the outcome and the id of each item."""
        ballots = await read_ballots(key, items)
        votes = [vote_of(ballot.vote) for ballot in ballots if isinstance(ballot.vote, VoteForm)]
        cast = iter(zip(await self._take_or_fail(key.account, votes), votes, strict=True))
        outcomes: list[tuple[Outcome, str | None]] = []
        for form, vote_id in ballots:
            if isinstance(form, VoteForm):
                outcome, vote = next(cast)
                outcomes.append((outcome, vote.vote_id))
            else:
                outcomes.append((form, vote_id))
        return outcomes

    @contextmanager
    def _batch_of(self, size: int) -> Iterator[None]:
        """Reserve memory for a batch before reading it. Raises `Overloaded` if the limit is reached."""
        if self._in_flight >= self._max_in_flight or self._batch_bytes + size > self._max_batch_bytes:
            raise _no_room()
        self._batch_bytes += size
        try:
            yield
        finally:
            self._batch_bytes -= size

    async def _take_or_fail(self, account: str, votes: Sequence[CastVote]) -> Sequence[Outcome]:
        """Cast like `_take`; an error of the whole call becomes the outcome of each vote."""
        try:
            return await self._take(account, votes)
        except TallyError as error:
            log_cause(error)
            return [error] * len(votes)

    async def _take(self, account: str, votes: Sequence[CastVote]) -> list[Outcome]:
        """Cast votes of one contest. The server cancels no request whose client hangs up."""
        if self._in_flight + len(votes) > self._max_in_flight:
            raise _no_room()
        self._in_flight += len(votes)
        try:
            return await self._votes.cast(account, votes)
        finally:
            self._in_flight -= len(votes)


def _no_room() -> Overloaded:
    """Count a refusal and return its error."""
    REFUSED.inc()
    return Overloaded("Too many votes are being recorded at once.", retry_after_s=1)


def _read_vote(key: ApiKey, headers: Headers, body: bytes) -> tuple[VoteForm, str]:
    """Return the vote and its id. Raises the errors of an invalid vote, and `Forbidden`."""
    form = parse_vote(body)
    vote_id = _vote_id(form, header(headers, b"idempotency-key"))
    if form.source == "c-paid":
        require(key, "purchases:write")
    return form, vote_id


def _named(headers: Headers, body: bytes | None) -> dict[str, str]:
    """Return the id that a refused vote was sent with, if it could be valid, as the member of its answer."""
    try:
        sent: Any = load_json(body) if body else None
    except TallyError:
        sent = None
    vote_id = id_in({"vote_id": header(headers, b"idempotency-key")}) or id_in(sent)
    return {"vote_id": vote_id} if vote_id else {}


def _vote_id(form: VoteForm, idempotency_key: str | None) -> str:
    if idempotency_key is None:
        return form.vote_id or new_vote_id()
    if form.vote_id is not None and form.vote_id != idempotency_key:
        raise IdempotencyKeyReused("The header Idempotency-Key and the body's vote_id differ.")
    checked = check_vote({"vote_id": idempotency_key, "participant_key": "p", "voter_id": "v"})
    if isinstance(checked, TallyError):
        raise ValidationFailed([Problem("", f"Idempotency-Key {VOTE_ID_TEXT}", "Idempotency-Key")])
    return idempotency_key


async def read_ballots(key: ApiKey, items: Sequence[bytes]) -> list[Ballot]:
    """Parse items of a batch, yielding to other requests after every `TURN` of them."""
    may_be_paid = "purchases:write" in key.permissions
    ballots: list[Ballot] = []
    for at, item in enumerate(items):
        if at % TURN == 0:
            await asyncio.sleep(0)
        ballot = parse_item(item)
        if not may_be_paid and isinstance(ballot.vote, VoteForm) and ballot.vote.source == "c-paid":
            ballot = Ballot(Forbidden("purchases:write"), ballot.vote_id)
        ballots.append(ballot)
    return ballots


Namer = Callable[[str, bytes, str | None, VoteForm], CastVote]


def _namer(idempotency_key: str | None) -> Namer:
    """Return the function that builds the commands of a batch, each with an id."""
    if idempotency_key is None:
        return _with_new_id
    ids = BatchIds(idempotency_key)
    return lambda contest, secret, forwarded, form: ids.name(
        command(contest, secret, form, form.vote_id or "", forwarded)
    )


def _with_new_id(contest: str, secret: bytes, forwarded: str | None, form: VoteForm) -> CastVote:
    return command(contest, secret, form, form.vote_id or new_vote_id(), forwarded)


def _length(body: bytes) -> tuple[bytes, bytes]:
    return b"content-length", str(len(body)).encode()


def _body(accepted: Accepted) -> dict[str, Any]:
    vote, terms = accepted.command, accepted.terms
    return {
        "vote_id": vote.vote_id,
        "contest_key": vote.contest,
        "status": "accepted",
        "accepted_at": timestamp(terms.accepted_at),
        "source": vote.source,
        "choices": [{"participant_key": key, "count": count} for key, count in terms.choices],
        "remaining": {
            "participant": terms.remaining_participant,
            "contest": terms.remaining_contest,
        },
        "next_free_vote_at": timestamp(terms.next_free_vote_at),
        "receipt": accepted.receipt,
    }


def _item_answer(outcome: Outcome, vote_id: str | None) -> dict[str, Any]:
    if isinstance(outcome, TallyError):
        answer = {"status": status_of(outcome), "vote_id": vote_id, "code": outcome.code}
        return outcome.data | answer | {"detail": outcome.message}
    body = _body(outcome)
    body["status"] = 200 if outcome.replayed else 201
    return body
