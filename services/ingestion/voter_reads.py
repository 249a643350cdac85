"""Reads for a voter's client: a vote's status and the remaining allowance."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence

from libs.catalogue.contests.contest_mapper import status_of
from libs.contracts.position_token import encode_positions
from libs.contracts.topics import Topic
from libs.tally.contest import UNLIMITED, Contest
from libs.tally.errors import RECOVERING, LedgerCatchingUp, NotFound
from libs.tally.events import Source
from libs.tally.rules import remaining, voting_limits
from libs.tally.time import timestamp
from libs.tally.voter_ledger import VoteStatus
from libs.views.catalogue_views import CatalogueViews
from libs.views.vote_views import VoteViews
from libs.voting.service import VotingService
from services.ingestion.vote_forms import (
    Allowance,
    AllowanceAnswer,
    Choice,
    ParticipantAllowance,
    SourceAllowance,
    VoteStatusAnswer,
)
from services.ingestion.voters import find_voter

SOURCES: tuple[Source, ...] = "c-free", "c-paid"
REASONS = {
    VoteStatus.OVERRULED: "It exceeded the limits that applied to it.",
    VoteStatus.REMOVED: "It was removed by its voter or with its purchase.",
    VoteStatus.REPLACED: "A later vote of the same voter replaced it.",
    VoteStatus.VOIDED: "An operator removed it.",
    VoteStatus.LATE: "It was recorded after the contest's close.",
}


class VoterReads:
    """Reads of one voter, identified by a pseudonym made with the contest's secret."""

    def __init__(self, topic: Topic, views: VoteViews, votes: VotingService, catalogue: CatalogueViews) -> None:
        self._catalogue = catalogue
        self._topic = topic
        self._views = views
        self._votes = votes
        self._contests = votes.contests

    async def status(
        self, account: str, contest: str, vote_id: str, voter_id: str | None, anonymous_id: str | None
    ) -> VoteStatusAnswer:
        """Return a vote's status.

        Raises `NotFound` for an id that was never accepted from this voter, `LedgerCatchingUp` while that is
        unknown.
        """
        configured = await self._contests.current(account, contest)
        voter = await find_voter(self._contests, account, contest, voter_id, anonymous_id)
        partition = self._topic.partition_of(voter)
        state = await self._views.lookup(partition, contest, voter, vote_id)
        if state.status is None:
            if not state.pending and not state.progress.open:
                raise LedgerCatchingUp(RECOVERING, retry_after_s=1)
            if not state.pending:
                raise NotFound(f"This voter has no accepted vote {vote_id}.", vote_id=vote_id)
            return VoteStatusAnswer(
                vote_id=vote_id,
                contest_key=contest,
                status="accepted",
                counts=False,
                reason="It is recorded and will be counted shortly.",
                accepted_at=timestamp(state.accepted_at),
                source=None,
                choices=None,
                position=None,
            )
        counts, reason = False, REASONS.get(state.status)
        if state.status is VoteStatus.COUNTED:
            counts, reason = await self._counts(configured, [participant for participant, _ in state.choices])
        return VoteStatusAnswer(
            vote_id=vote_id,
            contest_key=contest,
            status=state.status.name.lower(),
            counts=counts,
            reason=reason,
            accepted_at=timestamp(state.accepted_at),
            source=state.source,
            choices=[Choice(participant_key=participant, count=count) for participant, count in state.choices],
            position=encode_positions({partition: (state.offset or 0) + 1}),
        )

    async def _counts(self, contest: Contest, participants: Sequence[str]) -> tuple[bool, str | None]:
        """Return whether a counted vote for any of these counts now, and for which ones it does not."""
        statuses = await asyncio.gather(*(self._status_of(contest, participant) for participant in participants))
        missing = [
            f"{participant} {status}"
            for participant, status in zip(participants, statuses, strict=True)
            if status != "approved"
        ]
        reason = f"Votes do not count now for: {', '.join(missing)}." if missing else None
        return len(missing) < len(participants), reason

    async def _status_of(self, contest: Contest, participant: str) -> str:
        """Return "approved", or in parentheses why the participant's votes do not count."""
        if contest.closed:
            approved = contest.participants.get(participant) == "approved"
            return "approved" if approved else "(not approved when the contest was closed)"
        stored = await self._catalogue.get(contest.account, "participants", participant)
        if stored is None or stored.parent != contest.key:
            return "(deleted)"
        status = status_of(stored)
        return status if status == "approved" else f"({status})"

    async def allowance(
        self, account: str, contest_key: str, voter_id: str | None, anonymous_id: str | None
    ) -> AllowanceAnswer:
        """Return a voter's allowance by the rules that apply now; voters who never voted have used nothing.

        Raises `LedgerCatchingUp` while the ledger is being recovered.
        """
        voter = await find_voter(self._contests, account, contest_key, voter_id, anonymous_id)
        contest = await self._contests.get(account, contest_key)
        partition = self._topic.partition_of(voter)
        found = await self._views.allowance(partition, contest_key, voter)
        if not found.is_open:
            raise LedgerCatchingUp(RECOVERING, retry_after_s=1)
        if found.config.in_force != contest.version:
            contest = await self._votes.refresh(account, contest, voter, found.config)
        renews_at = None if found.latest is None else contest.renewal.after(found.latest)
        renewed = renews_at is not None and renews_at <= found.now
        periods = {"c-free": found.epoch + renewed, "c-paid": 0}
        used: dict[tuple[str, str], int] = defaultdict(int)
        for row in found.used:
            if row.epoch == periods[row.source]:
                used[row.source, row.participant] += row.votes
        return AllowanceAnswer(
            contest_key=contest_key,
            sources=[_of_source(contest, source, used) for source in SOURCES],
            next_free_vote_at=None if renewed else timestamp(renews_at),
        )


def _of_source(contest: Contest, source: Source, used: dict[tuple[str, str], int]) -> SourceAllowance:
    limits = voting_limits(contest, source)
    return SourceAllowance(
        source=source,
        contest=Allowance(**_bounded(limits.max_contest, used[source, ""])),
        participants=[
            ParticipantAllowance(participant_key=key, **_bounded(limits.max_participant, used[source, key]))
            for key, status in contest.participants.items()
            if status == "approved"
        ],
    )


def _bounded(limit: int, used: int) -> dict[str, int | None]:
    return {"used": used, "limit": None if limit == UNLIMITED else limit, "remaining": remaining(limit, used)}
