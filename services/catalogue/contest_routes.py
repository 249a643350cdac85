"""Closed contests: rejects changes that would alter the meaning of votes or a final result, and reopens."""

import asyncio
from collections.abc import Collection
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from pydantic import ConfigDict, Field
from starlette.responses import Response

from libs.catalogue.contests.closing_record import Closing, closing_of, votes_from
from libs.catalogue.contests.reopening import Reopener
from libs.catalogue.contests.visibility import LOOSENING, opens_sooner, shows_more
from libs.catalogue.errors import HasVotes
from libs.catalogue.resource_table import CONTESTS
from libs.catalogue.schemas.base import Document, Members, Timestamp
from libs.contracts.catalogue_events import ApiKey, Stored
from libs.contracts.limits import COMMAND_BODY
from libs.contracts.topics import VotesLog
from libs.tally.counts import VoteSums
from libs.tally.errors import ContestFinal, NotFound, ViewsUnavailable
from libs.tally.time_conversion import microseconds
from libs.tally.voter_ledger import VoteStatus
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.votes.reply_types import ContestCounts
from libs.views.votes.vote_views import VoteViews
from libs.web.documents.openapi import problems
from libs.web.door.auth import Authenticator
from libs.web.door.request_parsing import RequestKeyStore, is_repetition
from libs.web.door.typed_routes import IdempotencyKey, JsonBody, Permitted, Sent, TypedRoute
from libs.web.errors import Forbidden
from libs.web.responses import etag, json_response
from services.catalogue.openapi import record_answer


class ClosedContests:
    """Checks deletions and changes against the votes in `log`."""

    def __init__(self, catalogue: CatalogueViews, votes: VoteViews, log: VotesLog) -> None:
        self._catalogue = catalogue
        self._votes = votes
        self._log = log

    async def participant_may_go(self, account: str, participant: Stored) -> int:
        """Implement `Guard` for participants.

        Raises `NotFound`, `ContestFinal`, and `ViewsUnavailable` while the contest is closing.
        """
        contest = await self._catalogue.get(account, "contests", participant.parent)
        if contest is None:
            raise NotFound(f"Contest {participant.parent} not found.")
        closing = closing_of(contest.document)
        if closing is not None and await self._has_votes(contest, closing, participant.key):
            raise ContestFinal(f"Participant {participant.key} has votes in a closed contest; reopen it first.")
        return contest.version

    async def contest_may_change(
        self, before: Stored, after: Document, permissions: Collection[str] | None
    ) -> None:
        """Implement `ChangeGuard` for contests.

        Raises `HasVotes` if the type changes after votes were cast, and `Forbidden` if more is to be seen than
        `permissions` suffice for: of an end that is brought forward, if there are votes to see.

        A vote that is cast between these checks and the fold of the change, some milliseconds, keeps the form of
        the former type: it counts as one vote, and has no rating or positions.
        """
        if _type(before.document) != _type(after) and await self._was_voted(before):
            raise HasVotes("The contest has votes, so its contest_type cannot change; create another contest.")
        if permissions is None or not set(LOOSENING).isdisjoint(permissions):
            return
        if shows_more(before.document, after) or (
            opens_sooner(before.document, after) and await self._was_voted(before)
        ):
            raise Forbidden(*LOOSENING)

    async def _was_voted(self, contest: Stored) -> bool:
        """Return whether votes were cast that count, may count again, or are about to count."""
        if any(_voted(part) for part in await self._counts(contest)):
            return True
        states = await self._votes.closings(self._partitions(contest), contest.key)
        return any(state.pending for state in states.values())

    async def _has_votes(self, contest: Stored, closing: Closing, participant: str) -> bool:
        parts = await self._counts(contest)
        if any(part.closed < closing.seq for part in parts):
            raise ViewsUnavailable("The contest is closing; its votes are still being counted.", retry_after_s=1)
        return any(_counts(part, closing, participant) for part in parts)

    async def _counts(self, contest: Stored) -> list[ContestCounts]:
        counts = (self._votes.counts(partition, contest.key) for partition in self._partitions(contest))
        return [part for part in await asyncio.gather(*counts) if part is not None]

    def _partitions(self, contest: Stored) -> range:
        return self._log.topic_from(votes_from(contest.document)).numbers


def _type(document: Document) -> str:
    found: str = document.get("contest_type", "voteonly")
    return found


def _voted(part: ContestCounts) -> bool:
    return bool(part.sources) or any(
        count for status, count in part.ids.items() if status is not VoteStatus.REMOVED
    )


def _counts(part: ContestCounts, closing: Closing, participant: str) -> bool:
    """Return whether this partition counts votes for the participant; sources use the closing's mapping."""
    if part.figures.get((participant, ""), VoteSums()).count:
        return True
    return any(
        key == participant and mapped in reported.figures and reported.figures[mapped].count > 0
        for name, reported in part.sources.items()
        if name in closing.sources
        for mapped, key in closing.sources[name].mapping.items()
    )


class Reopening(Members):
    """Request body of a reopening."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"end": "2036-05-02T20:00:00.000000Z"}]})

    end: Timestamp = Field(description="Time at which it closes again.")


def reopening_router(auth: Authenticator, reopener: Reopener, requests: RequestKeyStore) -> APIRouter:
    """Build the route, at the contest's own address and the operators'; who may end a contest may reopen it."""
    router = APIRouter(tags=["contests"], route_class=TypedRoute)
    Caller = Annotated[ApiKey, Depends(Permitted(auth, "content:write", "operations"))]
    Form = Annotated[Sent[Reopening], Depends(JsonBody(Reopening, COMMAND_BODY))]

    async def reopen_contest(
        request: Request, caller: Caller, sent: Form, contest_key: str, idempotency_key: IdempotencyKey = None
    ) -> Response:
        """Reopen a closed contest.

        Voting continues until the new end; then the contest closes again. Late votes stay late; removals that
        waited take effect. A repeated request with the same end gets the same answer. A sealed contest must be
        unsealed first.
        """
        replayed = await is_repetition(requests, caller.account, request, idempotency_key, sent.content)
        stored = await reopener.reopen(caller.account, contest_key, microseconds(sent.form.end))
        return json_response(CONTESTS.show(stored), 200, {"ETag": etag(stored.updated)}, replayed=replayed)

    responses = {
        200: record_answer(CONTESTS, "The contest is running again."),
        **problems("not_found", "status_transition", "contest_final"),
    }
    for area, name in ("", "reopen_contest"), ("/operations", "reopen_contest_as_operator"):
        path = f"{area}/contests/{{contest_key}}/reopen"
        router.post(path, responses=responses, name=name)(reopen_contest)
    return router
