"""Reads for a voter's client: votes, their status, and the remaining allowance."""

import asyncio
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from libs.catalogue.contests.closing_record import status_of
from libs.contracts.position_token import PositionTokens
from libs.contracts.validation import no_token
from libs.contracts.vote_states import VoteState
from libs.tally.admission import remaining, voting_limits
from libs.tally.contest import MILLION, UNLIMITED, Contest
from libs.tally.errors import RECOVERING, LedgerCatchingUp, NotFound
from libs.tally.events import Rating, Source, VoteCast
from libs.tally.time_conversion import timestamp
from libs.tally.voter_ledger import VoteStatus
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.votes.vote_views import VoteViews
from libs.voting.cast_reader import ReadCast
from libs.voting.service import VotingService
from libs.web.door.typed_routes import ListPage
from services.ingestion.vote_forms import (
    Allowance,
    AllowanceAnswer,
    CastRating,
    Choice,
    ParticipantAllowance,
    SourceAllowance,
    VoteStatusAnswer,
    find_voter,
)

TOKEN: Final = re.compile(r"[0-9a-f]{24}")
SOURCES: tuple[Source, ...] = "c-free", "c-paid"
UNDECIDED: Final = (
    "The vote is being recorded, and it is not certain yet that it will be. Ask again shortly, or send the vote "
    "again with the same vote id: it counts once."
)
REASONS = {
    VoteStatus.OVERRULED: "It exceeded the limits that applied to it.",
    VoteStatus.REMOVED: "It was removed by its voter or with its purchase.",
    VoteStatus.REPLACED: "A later vote of the same voter replaced it.",
    VoteStatus.VOIDED: "An operator removed it.",
    VoteStatus.LATE: "It was recorded after the contest's close.",
}


class VoterReads:
    """Reads of one voter, identified by a pseudonym made with the contest's secret."""

    def __init__(
        self,
        views: VoteViews,
        votes: VotingService,
        catalogue: CatalogueViews,
        read_cast: ReadCast,
        position_tokens: PositionTokens,
    ) -> None:
        self._position_tokens = position_tokens
        self._read_cast = read_cast
        self._catalogue = catalogue
        self._views = views
        self._votes = votes
        self._contests = votes.contests

    async def status(
        self, account: str, contest: str, vote_id: str, voter_id: str | None, anonymous_id: str | None
    ) -> VoteStatusAnswer:
        """Return a vote's status.

        Raises `NotFound` for an id that was never accepted from this voter, and `LedgerCatchingUp` while that is
        unknown: a reservation may never be recorded, so a client that was told otherwise would lose the vote.
        """
        configured = await self._contests.current(account, contest)
        voter = await find_voter(self._contests, account, contest, voter_id, anonymous_id)
        partition = self._votes.partition_of(configured, voter)
        state = await self._views.lookup(partition, contest, voter, vote_id)
        if state.terms is not None:
            if not state.terms.choices:  # an id that a refund used up, which was never cast
                return await self._shown(configured, partition, vote_id, state, None, None)
            receipt = await self._votes.find_receipt(contest, voter, vote_id, state.terms.accepted_at)
            is_detailed = configured.contest_type in ("rating", "ordering") or receipt is None
            cast = await self._read_cast(partition, state.offset or 0) if is_detailed else None
            return await self._shown(
                configured, partition, vote_id, state, cast, cast.receipt if cast else receipt
            )
        if state.pending:
            raise LedgerCatchingUp(UNDECIDED, retry_after_s=1)
        if not state.progress.open:
            raise LedgerCatchingUp(RECOVERING, retry_after_s=1)
        raise NotFound(f"This voter has no accepted vote {vote_id}.")

    async def votes(
        self,
        account: str,
        contest: str,
        voter_id: str | None,
        anonymous_id: str | None,
        limit: int,
        next: str | None,
    ) -> ListPage[VoteStatusAnswer]:
        """Return a page of a voter's votes that are counted or were, newest first.

        The ledger holds digests of their ids; the ids are read from the log. Raises `ValidationFailed` for a
        broken token, `LedgerCatchingUp` while the ledger is being recovered, and `LogUnavailable`.
        """
        configured = await self._contests.current(account, contest)
        voter = await find_voter(self._contests, account, contest, voter_id, anonymous_id)
        partition = self._votes.partition_of(configured, voter)
        progress, found = await self._views.votes_of(partition, contest, voter, _digest(next), limit + 1)
        if not progress.open:
            raise LedgerCatchingUp(RECOVERING, retry_after_s=1)
        data = []
        for _, state in found[:limit]:
            cast = await self._read_cast(partition, state.offset or 0)
            if cast is not None:  # else an id that a refund used up, which was never cast
                data.append(await self._shown(configured, partition, cast.vote_id, state, cast, cast.receipt))
        has_more = len(found) > limit
        return ListPage(data=data, has_more=has_more, next=found[limit - 1][0].hex() if has_more else None)

    async def _shown(
        self,
        contest: Contest,
        partition: int,
        vote_id: str,
        state: VoteState,
        cast: VoteCast | None,
        receipt: str | None,
    ) -> VoteStatusAnswer:
        """Return a folded vote; its rating and positions are in its event."""
        assert state.status is not None
        assert state.terms is not None
        choices = state.terms.choices
        await self._position_tokens.load()
        counts, reason = False, REASONS.get(state.status)
        if state.status is VoteStatus.COUNTED:
            counts, reason = await self._counts(contest, [participant for participant, _ in choices])
        rating, positions = (None, None) if cast is None else (cast.rating, cast.positions)
        return VoteStatusAnswer(
            vote_id=vote_id,
            contest_key=contest.key,
            status=state.status.name.lower(),
            counts=counts,
            reason=reason,
            accepted_at=timestamp(state.terms.accepted_at),
            source=state.source,
            choices=[Choice(participant_key=participant, count=count) for participant, count in choices],
            rating=None if rating is None else _rating(rating),
            positions=None if positions is None else dict(positions),
            receipt=receipt,
            position=self._position_tokens.encode({partition: (state.offset or 0) + 1}),
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
        partition = self._votes.partition_of(contest, voter)
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


def _rating(rating: Rating) -> CastRating:
    subs = {name: value / MILLION for name, value in rating.sub_ratings}
    return CastRating(value=rating.value / MILLION, sub_ratings=subs)


def _digest(token: str | None) -> bytes:
    """Return the digest of the last vote of the page before. Raises `ValidationFailed`."""
    if token is None:
        return b""
    if TOKEN.fullmatch(token) is None:
        raise no_token()
    return bytes.fromhex(token)


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
