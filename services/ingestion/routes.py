"""The addresses of ingestion, and what OpenAPI says of them."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from libs.contracts.position_token import encode_positions
from libs.tally.commands import RemoveVote
from libs.voting.remover import Remover
from libs.web.asgi_routes import AsgiRoute
from libs.web.auth import ApiKey, Authenticator, require
from libs.web.openapi import (
    BAD_BODY,
    IDEMPOTENCY_KEY,
    LOCATION,
    REPLAYED,
    Schema,
    answers,
    body,
    needs,
    parameter,
    response_header,
    takes,
)
from services.ingestion.batches import NDJSON
from services.ingestion.forms import (
    VOTE_ID,
    AcceptedVote,
    AllowanceAnswer,
    BatchForm,
    BatchResult,
    VoteForm,
    VoteStatusAnswer,
)
from services.ingestion.reads import VoterReads
from services.ingestion.voters import find_voter
from services.ingestion.voting import Voting

TAG = "votes"
VoterId = Annotated[str | None, Query(description="A signed-in voter's id; exactly one of this and anonymous_id.")]
AnonymousId = Annotated[str | None, Query(description="An anonymous voter's id.")]
POSITION = response_header("Tally-Position", "Where this stands in the log; as min_position it is read counted.")
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
    "schema": {"type": "string", "description": "A vote a line, as the items of `votes`."},
    "example": '{"participant_key": "p1", "voter_id": "v1"}\n{"participant_key": "p2", "voter_id": "v2"}\n',
}


def _accepted(description: str, headers: Schema) -> Schema:
    return {"description": description, "headers": POSITION | LOCATION | headers, "model": AcceptedVote}


def hot_routes(voting: Voting) -> list[AsgiRoute]:
    batch = body(BatchForm)
    batch["content"][NDJSON] = NDJSON_BODY
    return [
        AsgiRoute(
            "/contests/{contest_key}/votes",
            cast_vote,
            voting.cast,
            methods=["POST"],
            status_code=201,
            tags=[TAG],
            responses=answers(
                *BAD_BODY,
                "not_found",
                "idempotency_key_reused",
                "gone",
                *REFUSALS,
                *UNKNOWN,
                success={
                    200: _accepted("Accepted before: the first answer again, nothing is counted.", REPLAYED),
                    201: _accepted("Recorded in the log, acknowledged by all in-sync replicas.", {}),
                },
            ),
            openapi_extra=needs("votes:write")
            | takes(
                VoteForm,
                parameter("Idempotency-Key", "header", "Same as vote_id.", {"type": "string", "pattern": VOTE_ID}),
            ),
        ),
        AsgiRoute(
            "/contests/{contest_key}/votes/batch",
            cast_votes,
            voting.cast_batch,
            methods=["POST"],
            tags=[TAG],
            responses=answers(
                *BAD_BODY,
                "not_found",
                "gone",
                success={
                    200: {"description": "Each item's own answer.", "headers": POSITION, "model": BatchResult},
                },
            ),
            openapi_extra=needs("votes:write") | {"requestBody": batch, "parameters": [IDEMPOTENCY_KEY]},
        ),
    ]


def cast_vote(contest_key: str) -> None:
    """Cast a vote.

    Paid votes need the permission `purchases:write`, too. A refusal is not remembered: the same id may try again
    later. After a 503, or no answer at all, send the same vote id again.
    """


def cast_votes(contest_key: str) -> None:
    """Cast up to 10,000 votes.

    As JSON or as application/x-ndjson (a vote a line). Each item has its own answer, in order; one bad item never
    spoils the others. Items without a vote_id get one; with an Idempotency-Key always the same, by their place in
    the batch. Rate limits count a batch as one request.
    """


def voter_router(auth: Authenticator, reads: VoterReads, remover: Remover) -> APIRouter:
    async def votes_key(request: Request) -> ApiKey:
        key = await auth.authenticate(request.scope)
        require(key, "votes:write")
        return key

    Key = Annotated[ApiKey, Depends(votes_key)]
    router = APIRouter(tags=[TAG])

    @router.get(
        "/contests/{contest_key}/votes/{vote_id}",
        responses=answers(
            "not_found", "validation_failed", "gone", success={200: {"description": "What became of it."}}
        ),
        openapi_extra=needs("votes:write"),
    )
    async def read_vote_status(
        key: Key, contest_key: str, vote_id: str, voter_id: VoterId = None, anonymous_id: AnonymousId = None
    ) -> VoteStatusAnswer:
        """Read what became of a vote."""
        return await reads.status(key.account, contest_key, vote_id, voter_id, anonymous_id)

    @router.delete(
        "/contests/{contest_key}/votes/{vote_id}",
        status_code=204,
        response_class=Response,
        responses=answers(
            "not_found",
            "validation_failed",
            "gone",
            "vote_removal_not_allowed",
            "contest_not_running",
            *UNKNOWN,
            success={204: {"description": "The vote counts no more.", "headers": POSITION}},
        ),
        openapi_extra=needs("votes:write"),
    )
    async def remove_vote(
        key: Key, contest_key: str, vote_id: str, voter_id: VoterId = None, anonymous_id: AnonymousId = None
    ) -> Response:
        """Take a free vote back.

        The allowance is free again once the removal is counted (read with its Tally-Position); the id stays used.
        """
        voter = await find_voter(remover.contests, key.account, contest_key, voter_id, anonymous_id)
        removed = await remover.remove(key.account, RemoveVote(contest_key, voter, vote_id))
        headers = {}
        if removed.offset is not None:
            headers["Tally-Position"] = encode_positions({removed.partition: removed.offset + 1})
        return Response(status_code=204, headers=headers)

    @router.get(
        "/contests/{contest_key}/allowance",
        responses=answers(
            "not_found", "validation_failed", "gone", success={200: {"description": "Used and left."}}
        ),
        openapi_extra=needs("votes:write"),
    )
    async def read_allowance(
        key: Key, contest_key: str, voter_id: VoterId = None, anonymous_id: AnonymousId = None
    ) -> AllowanceAnswer:
        """Read what a voter has used and may still cast.

        One who never voted has used nothing.
        """
        return await reads.allowance(key.account, contest_key, voter_id, anonymous_id)

    return router
