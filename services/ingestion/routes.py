"""Routes of ingestion with their OpenAPI descriptions."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query
from pydantic import WithJsonSchema
from starlette.responses import Response

from libs.contracts.catalogue_events import ApiKey
from libs.contracts.limits import BATCH_BODY, VOTE_BODY
from libs.contracts.position_token import PositionTokens
from libs.tally.vote_commands import RemoveVote
from libs.voting.service import VotingService
from libs.web.documents.openapi import (
    LOCATION,
    MAX_BYTES,
    REPLAYED,
    Schema,
    body,
    needs,
    problems,
    response_header,
    takes,
)
from libs.web.door.auth import Authenticator
from libs.web.door.typed_routes import LISTED, IdempotencyKey, Limit, ListPage, Next, Permitted, TypedRoute
from libs.web.server.asgi_routes import HotRoute
from services.ingestion.batch_parsing import NDJSON
from services.ingestion.vote_endpoints import Voting
from services.ingestion.vote_forms import (
    VOTE_ID,
    AcceptedVote,
    AllowanceAnswer,
    BatchForm,
    BatchResult,
    VoteForm,
    VoteStatusAnswer,
    find_voter,
)
from services.ingestion.voter_reads import VoterReads

TAG = "votes"
VoterId = Annotated[str | None, Query(description="A signed-in voter's id; exactly one of this and anonymous_id.")]
AnonymousId = Annotated[str | None, Query(description="An anonymous voter's id.")]
VoteIdHeader = Annotated[
    str | None,
    Header(alias="Idempotency-Key", description="Same as vote_id."),
    WithJsonSchema({"type": "string", "pattern": VOTE_ID}),
]
POSITION = response_header(
    "Tally-Position", "Opaque position in the log; a read with it as min_position includes this write."
)
LIMITS = ("participant_limit_reached", "contest_limit_reached", "ip_limit_reached")
REFUSALS = (
    "anonymous_voting_disabled",
    "mobile_only",
    "contest_not_running",
    "participant_not_votable",
    *LIMITS,
)
UNKNOWN = ("log_unavailable", "ledger_catching_up", "overloaded")
NDJSON_BODY: Schema = {
    "schema": {
        "type": "string",
        "description": "One vote per line, each as an item of `votes`.",
        MAX_BYTES: BATCH_BODY,
    },
    "example": '{"participant_key": "p1", "voter_id": "v1"}\n{"participant_key": "p2", "voter_id": "v2"}\n',
}


def _accepted(description: str, headers: Schema) -> Schema:
    return {"description": description, "headers": POSITION | LOCATION | headers, "model": AcceptedVote}


def _takes_batch() -> Schema:
    batch = body(BatchForm, BATCH_BODY)
    batch["content"][NDJSON] = NDJSON_BODY
    return {"requestBody": batch}


def hot_routes(voting: Voting) -> list[HotRoute]:
    return [
        HotRoute(
            "/contests/{contest_key}/votes",
            cast_vote,
            voting.cast,
            VOTE_BODY,
            methods=["POST"],
            status_code=201,
            tags=[TAG],
            responses={
                200: _accepted("Accepted before: repeats the first answer and counts nothing.", REPLAYED),
                201: _accepted("Recorded in the log, acknowledged by all in-sync replicas.", {}),
                **problems("not_found", "gone", *REFUSALS, *UNKNOWN),
            },
            openapi_extra=needs("votes:write"),
            describe=partial(takes, VoteForm, VOTE_BODY),
        ),
        HotRoute(
            "/contests/{contest_key}/votes/batch",
            cast_votes,
            voting.cast_batch,
            methods=["POST"],
            tags=[TAG],
            responses={
                200: {"description": "One result per vote.", "headers": POSITION, "model": BatchResult},
                **problems("not_found", "gone"),
            },
            openapi_extra=needs("votes:write"),
            describe=_takes_batch,
        ),
    ]


def cast_vote(contest_key: str, vote_id: VoteIdHeader = None) -> None:
    """Cast a vote.

    Paid votes also need the permission `purchases:write`. Refusals are not stored: the same id may be sent again
    later. After a 503 or a lost response, send the same vote id again.
    """


def cast_votes(contest_key: str, idempotency_key: IdempotencyKey = None) -> None:
    """Cast up to 10,000 votes.

    The body is JSON or application/x-ndjson (one vote per line). Each item has its own result, in order; an
    invalid item does not affect the others. Items without a vote_id get one; with an Idempotency-Key it is
    derived from the key, the voter, the vote's content and the number of equal votes before it in the batch. A
    retry keeps its ids, also one of some of the votes only or in another order; of equal votes send all again, or
    give each a vote_id. Rate limits count a batch as one request.
    """


def voter_router(
    auth: Authenticator, reads: VoterReads, votes: VotingService, positions: PositionTokens
) -> APIRouter:
    Key = Annotated[ApiKey, Depends(Permitted(auth, "votes:write"))]
    router = APIRouter(tags=[TAG], route_class=TypedRoute)

    @router.get(
        "/contests/{contest_key}/votes/{vote_id}",
        response_description="The vote's status.",
        responses=problems("not_found", "gone", "ledger_catching_up"),
    )
    async def read_vote_status(
        key: Key, contest_key: str, vote_id: str, voter_id: VoterId = None, anonymous_id: AnonymousId = None
    ) -> VoteStatusAnswer:
        """Read a vote's status.

        While it is not certain that the vote is recorded, the answer is 503: ask again after `Retry-After`, or
        send the vote again with the same id. A 404 means that it is not recorded.
        """
        return await reads.status(key.account, contest_key, vote_id, voter_id, anonymous_id)

    @router.get(
        "/contests/{contest_key}/votes",
        response_description="The voter's votes.",
        responses=problems("not_found", "gone", "log_unavailable", "ledger_catching_up"),
    )
    async def list_votes_of_voter(
        key: Key,
        contest_key: str,
        voter_id: VoterId = None,
        anonymous_id: AnonymousId = None,
        limit: Limit = LISTED,
        next: Next = None,
    ) -> ListPage[VoteStatusAnswer]:
        """List a voter's own votes in a contest.

        Also those that do not count any more, with the reason. A vote appears once it is counted, within a second
        of its acceptance, and finds its lost id again.
        """
        return await reads.votes(key.account, contest_key, voter_id, anonymous_id, limit, next)

    @router.delete(
        "/contests/{contest_key}/votes/{vote_id}",
        status_code=204,
        responses={
            204: {"description": "The vote no longer counts.", "headers": POSITION},
            **problems("not_found", "gone", "vote_removal_not_allowed", "contest_not_running", *UNKNOWN),
        },
    )
    async def remove_vote(
        key: Key, contest_key: str, vote_id: str, voter_id: VoterId = None, anonymous_id: AnonymousId = None
    ) -> Response:
        """Remove a free vote.

        The voter regains the allowance once the removal is counted (read with its Tally-Position); the id stays
        used.
        """
        await positions.load()
        voter = await find_voter(votes.contests, key.account, contest_key, voter_id, anonymous_id)
        removed = await votes.remove(key.account, RemoveVote(contest_key, voter, vote_id))
        headers = {}
        if removed.offset is not None:
            headers["Tally-Position"] = positions.encode({removed.partition: removed.offset + 1})
        return Response(status_code=204, headers=headers)

    @router.get(
        "/contests/{contest_key}/allowance",
        response_description="The voter's allowance.",
        responses=problems("not_found", "gone"),
    )
    async def read_allowance(
        key: Key, contest_key: str, voter_id: VoterId = None, anonymous_id: AnonymousId = None
    ) -> AllowanceAnswer:
        """Read a voter's used and remaining votes.

        Voters who have not voted have used nothing.
        """
        return await reads.allowance(key.account, contest_key, voter_id, anonymous_id)

    return router
