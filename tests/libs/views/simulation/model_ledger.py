"""Model of the ledger: admission and reads in plain Python, by the pure rules of `libs.tally`."""

from typing import Any

from libs.contracts.vote_states import FoldProgress, VoteState
from libs.tally.admission import Selection, judge, remaining
from libs.tally.contest import UNLIMITED, Contest
from libs.tally.errors import ContestNotRunning, LimitReached
from libs.tally.events import VoteCast
from libs.tally.fold import ContestTally, PartitionTally
from libs.tally.reservations import (
    Answer,
    Duplicate,
    GateClosed,
    Granted,
    IdConflict,
    NotCounted,
    NotFolded,
    NotRunning,
    OverLimit,
    Paid,
    RefusedByCaller,
    RemovalAnswer,
    RemovalGranted,
    Stale,
    Unknown,
)
from libs.tally.vote_commands import CastVote, RemoveVote
from libs.tally.voter_ledger import FoldedVote, VoterLedger, VoteStatus
from libs.views.reply_types import ClosingState, PartitionState, VoterAllowance
from tests.libs.views.simulation.allowance_use import Book, Reservation
from tests.libs.views.simulation.model_gate import Key, ModelGate, Removal, key_of
from tests.simulation.comparison import described, differing
from tests.support.reference_admission import decide, not_running


class ModelLedger(ModelGate):
    """A guard a method, as in the gate."""

    def joined(self, first: Reservation) -> Granted:
        return first.granted._replace(joined=True, incarnation=self.s.n)

    def is_reopened(self, contest: Contest) -> bool:
        """Return whether the marks that a reopening voids are void here already."""
        return self._contest(contest.key).reopened >= contest.reopened

    def is_being_removed(self, contest: str, voter: str, vote_id: str | None) -> bool:
        return vote_id is not None and (contest, voter, vote_id) in self.s.removals

    def replaces_in(self, book: Book, slot: str, source: str) -> bool:
        return book.holder(slot, source) is not None

    def is_being_replaced(self, book: Book, vote_id: str) -> bool:
        return any(book.holder(r.slot, r.command.source) == vote_id for r in book.pending)

    def waits_for_former_period(self, book: Book, epoch: int) -> bool:
        """Return whether a free vote of a period before the former one is still pending."""
        free = (r.granted for r in book.pending if r.command.source == "c-free")
        return any(granted.epoch < epoch - 1 for granted in free)

    def is_removable(self, command: CastVote | RemoveVote, status: VoteStatus) -> bool:
        """A voided vote only with its purchase, or where its voter asked before it was voided."""
        asked = isinstance(command, CastVote) or key_of(command) in self.s.removals
        return status is VoteStatus.COUNTED or (status is VoteStatus.VOIDED and asked)

    def now(self) -> int:
        """No moment is given to two votes."""
        return max(self.s.clock + 1, self.now_ms * 1000)

    def reserve(self, contest: Contest, command: CastVote, *, declined: bool = False) -> Answer:
        if not self.is_open():
            return GateClosed()
        now = self.now()
        self.s.clock = now - 1  # unless it is given to a vote
        if (folded := self._folded(command)) is not None:
            return _known(folded) if folded.cast.content == command.content else IdConflict()
        if (first := self.s.pending.get(key_of(command))) is not None:
            if first.command.content != command.content:
                return IdConflict()
            first.attempts += 1
            return self.joined(first)
        if self.s.config.get(contest.key) != contest.version:
            return Stale(self.s.config.get(contest.key), self.s.n)
        return self._decide(contest, command, now, declined)

    def _decide(self, contest: Contest, command: CastVote, now: int, declined: bool) -> Answer:
        book, source = self.book(contest.key, command.voter), command.source
        judged = judge(contest, command)
        own_slot = judged.slot if isinstance(judged, Selection) else None
        epoch, renews_at = book.period(contest.renewal, now) if source == "c-free" else (0, None)

        def used(participant: str) -> int:
            return book.used(participant, source, epoch, own_slot)

        def holds(slot: str) -> bool:
            return self.replaces_in(book, slot, source)

        match decide(contest, command, used, now, holds):
            case ContestNotRunning():
                return NotRunning(now)
            case _ if not self.is_reopened(contest):
                return GateClosed()
            case _ if declined:
                return RefusedByCaller(now)
            case LimitReached() | Selection() if source == "c-free" and self.waits_for_former_period(book, epoch):
                return GateClosed()
            case LimitReached() as error:
                limit = error.data["limit"]
                helps = limit == UNLIMITED or command.count <= limit
                return OverLimit(error.scope, limit, error.data["used"], renews_at if helps else None, now)
            case Selection() as selection:
                holder = book.holder(own_slot, source)
                if self.is_being_removed(contest.key, command.voter, holder):
                    return GateClosed()
                weight = 0 if holder is not None else selection.weight
                left_p = remaining(selection.max_participant, used(selection.choices[0][0]) + weight)
                left_c = remaining(selection.max_contest, used("") + weight)
                next_at = contest.renewal.after(now) if source == "c-free" else None
                limits = selection.max_participant, selection.max_contest
                judged_by = epoch, contest.version, *limits, selection.form, selection.choices
                granted = Granted(False, now, self.s.n, left_p, left_c, next_at, *judged_by)
                self.s.pending[key_of(command)] = Reservation(command, granted)
                self.s.clock = now
                return granted
            case _:
                return RefusedByCaller(now)

    def release(self, command: CastVote, incarnation: int) -> None:
        self._release(self.s.pending, key_of(command), incarnation)

    def release_removal(self, command: CastVote | RemoveVote, incarnation: int) -> None:
        self._release(self.s.removals, key_of(command), incarnation)

    def _release(self, held: dict[Key, Any], key: Key, incarnation: int) -> None:
        if self.may_release(incarnation) and (reservation := held.get(key)) is not None:
            reservation.attempts -= 1
            if reservation.attempts == 0:
                del held[key]

    def remove(self, contest: Contest, command: RemoveVote) -> RemovalAnswer:
        if not self.is_open():
            return GateClosed()
        folded = self._folded(command)
        if (early := self._undecided(command, folded)) is not None:
            return early
        if folded is None:
            return Unknown()
        if folded.cast.source != "c-free":
            return Paid()
        if key_of(command) not in self.s.removals:
            if self.s.config.get(contest.key) != contest.version:
                return Stale(self.s.config.get(contest.key), self.s.n)
            if not_running(contest, self.now()) is not None:
                return NotRunning(self.now())
            if not self.is_reopened(contest):
                return GateClosed()
            if not contest.is_vote_removal_allowed:
                return RefusedByCaller(self.now())
        return self._grant_removal(command, folded.cast, folded.offset)

    def refund(self, command: CastVote) -> RemovalAnswer:
        if not self.is_open():
            return GateClosed()
        folded = self._folded(command)
        if (early := self._undecided(command, folded)) is not None:
            return early
        return self._grant_removal(command, folded.cast if folded else command, folded.offset if folded else None)

    def _undecided(self, command: CastVote | RemoveVote, folded: FoldedVote | None) -> RemovalAnswer | None:
        book = self.book(command.contest, command.voter)
        if key_of(command) in self.s.pending:
            return NotFolded()
        if folded is not None and not self.is_removable(command, folded.status):
            return NotCounted(folded.status, folded.offset)
        return NotFolded() if self.is_being_replaced(book, command.vote_id) else None

    def _grant_removal(
        self, command: CastVote | RemoveVote, vote: CastVote | VoteCast, offset: int | None
    ) -> RemovalGranted:
        standing = self._contest(command.contest).voters.get(command.voter, VoterLedger())
        anonymous = vote.anonymous if offset is None else standing.anonymous
        what = self.s.n, anonymous, vote.content, vote.source, offset
        if (first := self.s.removals.get(key_of(command))) is not None:
            first.attempts += 1
            return RemovalGranted(first.removed_at, *what)
        self.s.clock = now = self.now()
        self.s.removals[key_of(command)] = Removal(now)
        return RemovalGranted(now, *what)

    def _contest(self, key: str) -> ContestTally:
        return self.s.tally.contests.get(key, ContestTally())

    def _folded(self, command: CastVote | RemoveVote) -> FoldedVote | None:
        standing = self._contest(command.contest).voters.get(command.voter, VoterLedger())
        return standing.votes.get(command.vote_id)

    def book(self, contest: str, voter: str) -> Book:
        pending = [r for key, r in self.s.pending.items() if key[:2] == (contest, voter)]
        return Book(self._contest(contest).voters.get(voter, VoterLedger()), pending)

    def state(self) -> PartitionState:
        s = self.s
        accepted = [r.granted.accepted_at for r in s.pending.values()]
        removed = [r.removed_at for r in s.removals.values()]
        judged = s.tally.fenced, s.tally.duplicates, 0, s.tally.overruled
        doubt = len(accepted) + len(removed), min(accepted + removed, default=None)
        return PartitionState(
            s.position, self.is_open(), s.n, self.now_ms * 1000, s.tally.fence, *doubt, *judged, s.clock
        )

    def lookup(self, command: CastVote | RemoveVote) -> VoteState:
        progress = FoldProgress(self.s.position, self.is_open(), self.s.n)
        if (folded := self._folded(command)) is None:
            pending = self.s.pending.get(key_of(command))
            return VoteState(progress, True, None, pending.granted.accepted_at) if pending else VoteState(progress)
        cast = folded.cast
        return VoteState(
            progress,
            status=folded.status,
            accepted_at=cast.accepted_at,
            offset=folded.offset,
            choices=cast.choices,
            source=cast.source,
            content=cast.content,
            remaining_participant=cast.remaining_participant,
            remaining_contest=cast.remaining_contest,
            next_free_vote_at=cast.next_free_vote_at,
            removal_waits=(command.voter, command.vote_id) in self._contest(command.contest).waiting,
        )

    def allowance(self, contest: str, voter: str) -> VoterAllowance:
        book = self.book(contest, voter)
        free = [r.granted for r in book.pending if r.command.source == "c-free"]
        epoch = max([book.standing.epoch, *(granted.epoch for granted in free)])
        latest = max([book.latest(), *(granted.accepted_at for granted in free)])
        config = Stale(self.s.config.get(contest), self.s.n)
        return VoterAllowance(self.now(), epoch, latest or None, book.rows(list(book.holding())), config)

    def closing(self, contest: str) -> ClosingState:
        tally = self._contest(contest)
        pending = {key[1] for key in (*self.s.pending, *self.s.removals) if key[0] == contest}
        sources = {name: source.closed for name, source in tally.sources.items()}
        waiting = len(tally.waiting) + len(tally.waiting_voids)
        marks = tally.closed, tally.reopened, waiting, self.s.position.offset, sources
        return ClosingState(self.is_open(), self.s.config.get(contest), len(pending), self.now(), *marks)

    def differences(self, tally: PartitionTally) -> list[str]:
        mine, other = described(self.s.tally), described(tally)
        return differing(mine, other)


def _known(folded: FoldedVote) -> Duplicate:
    cast = folded.cast
    left = cast.remaining_participant, cast.remaining_contest
    choices = cast.choices if cast.form == "ballot" else ()
    return Duplicate(cast.accepted_at, *left, cast.next_free_vote_at, folded.offset, folded.status, choices)
