"""`POST /contests/<key>/votes` and `/votes/batch`: the hot path, as bare ASGI."""

import asyncio
from typing import Any

import orjson
from starlette.types import Receive, Scope, Send

from libs.contracts.problems import Problem, ValidationFailed, pointer
from libs.contracts.tokens import encode_positions
from libs.tally.errors import IdempotencyKeyReused, Overloaded, TallyError, timestamp
from libs.web.auth import ApiKey, Authenticator, header, require
from libs.web.errors import MalformedJson, PayloadTooLarge, status_of
from libs.web.requests import parse_json, parse_object, read_body, require_json
from services.ingestion.casting import Accepted, Caster
from services.ingestion.forms import VOTE_ID, VoteForm, check_vote, parse_vote
from services.ingestion.voters import Network, command, forwarded_address, new_vote_id

MAX_BATCH = 10_000
MAX_BATCH_BYTES = 8 << 20
NDJSON = "application/x-ndjson"

Item = tuple[VoteForm | TallyError, str | None]
"""A vote of a batch, or what is wrong with it, and its id as far as it has one."""


class Voting:
    """The two endpoints and the bound on what they take on at once."""

    def __init__(
        self, auth: Authenticator, caster: Caster, max_in_flight: int, trusted_proxies: list[Network]
    ) -> None:
        self._auth = auth
        self._caster = caster
        self._max_in_flight = max_in_flight
        self._trusted = trusted_proxies
        self._in_flight = 0

    async def cast(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = scope["headers"]
        key = self._auth.known(headers) or await self._auth.authenticate(headers)
        require(key, "votes:write")
        require_json(headers)
        form = parse_vote(await read_body(headers, receive))
        vote_id = _vote_id(form, header(headers, b"idempotency-key"))
        if form.source == "c-paid":
            require(key, "purchases:write")
        contest = scope["path_params"]["contest_key"]
        accepted = await self._take(key, contest, form, vote_id, self._forwarded(scope))
        status = 200 if accepted.replayed else 201
        answer = [
            (b"content-type", b"application/json"),
            (b"location", f"/contests/{contest}/votes/{vote_id}".encode()),
            (b"tally-position", encode_positions({accepted.partition: accepted.offset + 1}).encode()),
        ]
        if accepted.replayed:
            answer.append((b"idempotent-replayed", b"true"))
        await _respond(send, status, answer, orjson.dumps(_body(accepted)))

    async def cast_batch(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = scope["headers"]
        key = self._auth.known(headers) or await self._auth.authenticate(headers)
        require(key, "votes:write")
        media_type = require_json(headers, NDJSON)
        body = await read_body(headers, receive, MAX_BATCH_BYTES)
        items = _ndjson(body) if media_type == NDJSON else _json(body)
        contest, forwarded = scope["path_params"]["contest_key"], self._forwarded(scope)
        await self._caster.contests.get(key.account, contest)
        # tasks begin in their order, so the votes of one voter are reserved in it
        results = await asyncio.gather(
            *(self._take_item(key, contest, vote, vote_id, forwarded) for vote, vote_id in items)
        )
        positions: dict[int, int] = {}
        for result in results:
            if isinstance(result, Accepted):
                positions[result.partition] = max(result.offset + 1, positions.get(result.partition, 0))
        rows = [_item_answer(result, vote_id) for result, (_, vote_id) in zip(results, items, strict=True)]
        answer = [(b"content-type", b"application/json")]
        if positions:
            answer.append((b"tally-position", encode_positions(positions).encode()))
        await _respond(send, 200, answer, orjson.dumps({"results": rows}))

    async def _take_item(
        self, key: ApiKey, contest: str, item: VoteForm | TallyError, vote_id: str | None, forwarded: str | None
    ) -> Accepted | TallyError:
        if isinstance(item, TallyError):
            return item
        try:
            if item.source == "c-paid":
                require(key, "purchases:write")
            return await self._take(key, contest, item, vote_id or new_vote_id(), forwarded)
        except TallyError as error:
            return error

    async def _take(
        self, key: ApiKey, contest: str, form: VoteForm, vote_id: str, forwarded: str | None
    ) -> Accepted:
        """Cast one vote; a client that hangs up does not stop what was begun."""
        if self._in_flight >= self._max_in_flight:
            raise Overloaded("Too many votes are being recorded at once.", retry_after_s=1, vote_id=vote_id)
        self._in_flight += 1
        try:
            secret = await self._caster.contests.secret(key.account, contest)
            vote = command(contest, secret, form, vote_id, forwarded)
            return await asyncio.shield(asyncio.ensure_future(self._caster.cast(key.account, vote)))
        except TallyError as error:
            error.data.setdefault("vote_id", vote_id)
            raise
        finally:
            self._in_flight -= 1

    def _forwarded(self, scope: Scope) -> str | None:
        if not self._trusted:
            return None
        peer = scope.get("client")
        return forwarded_address(
            peer[0] if peer else None, header(scope["headers"], b"x-forwarded-for"), self._trusted
        )


def _vote_id(form: VoteForm, idempotency_key: str | None) -> str:
    if idempotency_key is None:
        return form.vote_id or new_vote_id()
    if form.vote_id is not None and form.vote_id != idempotency_key:
        raise IdempotencyKeyReused("The header Idempotency-Key and the body's vote_id name different ids.")
    checked = check_vote({"vote_id": idempotency_key, "participant_key": "p", "voter_id": "v"})
    if isinstance(checked, TallyError):
        raise ValidationFailed([Problem("", f"Idempotency-Key must match {VOTE_ID}")])
    return idempotency_key


def _json(body: bytes) -> list[Item]:
    value = parse_object(body)
    votes = value.pop("votes", None)
    if not isinstance(votes, list):
        raise ValidationFailed([Problem("/votes", "must be an array of votes")])
    if value:
        raise ValidationFailed([Problem(pointer(name), "unknown member") for name in value])
    _refuse_more_than_most(votes)
    return [_item(vote) for vote in votes]


def _ndjson(body: bytes) -> list[Item]:
    lines = [line for line in body.split(b"\n") if line.strip()]
    _refuse_more_than_most(lines)
    return [_line(line) for line in lines]


def _line(line: bytes) -> Item:
    try:
        return _item(parse_json(line))
    except MalformedJson as error:
        return error, None


def _item(value: Any) -> Item:
    vote = check_vote(value)
    if isinstance(vote, VoteForm):
        return vote, vote.vote_id or new_vote_id()
    given = value.get("vote_id") if isinstance(value, dict) else None
    return vote, given if isinstance(given, str) else None


def _refuse_more_than_most(items: list[Any]) -> None:
    if len(items) > MAX_BATCH:
        raise PayloadTooLarge(f"A batch holds {MAX_BATCH} votes at most; send the rest in another.")


def _body(accepted: Accepted) -> dict[str, Any]:
    vote = accepted.command
    return {
        "vote_id": vote.vote_id,
        "contest_key": vote.contest,
        "status": "accepted",
        "accepted_at": timestamp(accepted.accepted_at),
        "source": vote.source,
        "choices": [{"participant_key": key, "count": count} for key, count in vote.choices],
        "remaining": {
            "participant": accepted.remaining_participant,
            "contest": accepted.remaining_contest,
        },
        "next_free_vote_at": timestamp(accepted.next_free_vote_at),
        "receipt": accepted.receipt,
    }


def _item_answer(result: Accepted | TallyError, vote_id: str | None) -> dict[str, Any]:
    if isinstance(result, Accepted):
        return _body(result) | {"status": 200 if result.replayed else 201}
    answer = {"status": status_of(result), "vote_id": vote_id, "code": result.code, "detail": result.message}
    return result.data | answer


async def _respond(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
