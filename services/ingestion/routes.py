"""The addresses of ingestion, and what OpenAPI says of them."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Header, Query, Request
from starlette.responses import Response

from libs.casting.removing import Remover
from libs.contracts.tokens import encode_positions
from libs.tally.commands import RemoveVote
from libs.web.auth import ApiKey, Authenticator, headers_of, require
from libs.web.hot import HotRoute
from services.ingestion.forms import (
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
VOTER = "A signed-in voter's id; exactly one of this and anonymous_id."
ANONYMOUS = "An anonymous voter's id."
POSITION = {"description": "Where this stands in the log; give it as min_position to read it counted."}
POSITION_HEADER = POSITION | {"schema": {"type": "string"}}


def _accepted(description: str) -> dict[str, Any]:
    return {
        "description": description,
        "headers": {"Tally-Position": POSITION_HEADER},
        "model": AcceptedVote,
    }


def hot_routes(voting: Voting) -> list[HotRoute]:
    return [
        HotRoute(
            "/contests/{contest_key}/votes",
            cast_vote,
            voting.cast,
            methods=["POST"],
            status_code=201,
            tags=[TAG],
            responses={
                200: _accepted("Accepted before: the first answer again, nothing is counted."),
                201: _accepted("Recorded in the log, acknowledged by all in-sync replicas."),
                409: {"description": "Not running, participant not votable, or a limit reached."},
                503: {"description": "Not decided, or not known: send the same vote id again."},
            },
        ),
        HotRoute(
            "/contests/{contest_key}/votes/batch",
            cast_votes,
            voting.cast_batch,
            methods=["POST"],
            tags=[TAG],
            responses={413: {"description": "More than 10,000 votes, or 8 MiB."}},
        ),
    ]


def cast_vote(  # type: ignore[empty-body]
    contest_key: str,
    vote: Annotated[VoteForm, Body()],
    idempotency_key: Annotated[str | None, Header(description="Same as vote_id.")] = None,
) -> AcceptedVote:
    """Cast a vote.

    Needs the permission votes:write, and purchases:write for paid votes. A refusal is not remembered: the same id
    may try again later.
    """


def cast_votes(  # type: ignore[empty-body]
    contest_key: str,
    batch: Annotated[BatchForm, Body()],
    idempotency_key: Annotated[
        str | None, Header(description="Sent again with it, the batch counts once.")
    ] = None,
) -> BatchResult:
    """Cast up to 10,000 votes, as JSON or as application/x-ndjson (a vote a line).

    Each item has its own answer, in order; one bad item never spoils the others. Items without a vote_id get one;
    with an Idempotency-Key always the same, by their place in the batch.
    """


def voter_router(auth: Authenticator, reads: VoterReads, remover: Remover) -> APIRouter:
    async def votes_key(request: Request) -> ApiKey:
        key = await auth.authenticate(headers_of(request.scope))
        require(key, "votes:write")
        return key

    Key = Annotated[ApiKey, Depends(votes_key)]
    VoterId = Annotated[str | None, Query(description=VOTER)]
    AnonymousId = Annotated[str | None, Query(description=ANONYMOUS)]
    router = APIRouter(tags=[TAG], responses={410: {"description": "The contest's secret was destroyed."}})

    @router.get("/contests/{contest_key}/votes/{vote_id}")
    async def read_vote_status(
        key: Key, contest_key: str, vote_id: str, voter_id: VoterId = None, anonymous_id: AnonymousId = None
    ) -> VoteStatusAnswer:
        """What became of a vote."""
        return await reads.status(key.account, contest_key, vote_id, voter_id, anonymous_id)

    @router.delete(
        "/contests/{contest_key}/votes/{vote_id}",
        status_code=204,
        response_class=Response,
        responses={
            204: {"description": "The vote counts no more.", "headers": {"Tally-Position": POSITION_HEADER}},
            403: {"description": "The contest does not allow it, or the vote is a paid or a voided one."},
            409: {"description": "The contest does not run."},
            503: {"description": "Not decided, or not known: ask again."},
        },
    )
    async def remove_vote(
        key: Key, contest_key: str, vote_id: str, voter_id: VoterId = None, anonymous_id: AnonymousId = None
    ) -> Response:
        """Take a free vote back.

        The allowance is free again once the removal is folded (read with its Tally-Position); the id stays used.
        """
        voter = await find_voter(remover.contests, key.account, contest_key, voter_id, anonymous_id)
        removed = await remover.remove(key.account, RemoveVote(contest_key, voter, vote_id))
        headers = {}
        if removed.offset is not None:
            headers["Tally-Position"] = encode_positions({removed.partition: removed.offset + 1})
        return Response(status_code=204, headers=headers)

    @router.get("/contests/{contest_key}/allowance")
    async def read_allowance(
        key: Key, contest_key: str, voter_id: VoterId = None, anonymous_id: AnonymousId = None
    ) -> AllowanceAnswer:
        """What a voter has used and may still cast."""
        return await reads.allowance(key.account, contest_key, voter_id, anonymous_id)

    return router
