"""Mutations of the protocol, each without one guard: the simulation must detect every one."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from libs.contracts.log_records import Position
from libs.tally.contest import UNLIMITED, Contest
from libs.tally.events import Event, Fence, VoteCast, VoteRemoved
from libs.tally.fold import ContestTally
from libs.tally.reservations import Answer, Granted, NotCounted, RemovalAnswer
from libs.tally.vote_commands import CastVote, RemoveVote
from libs.tally.voter_ledger import FoldedVote, VoteStatus
from libs.views.reply_types import ClosingState
from tests.libs.views.simulation.allowance_use import Book, Reservation
from tests.libs.views.simulation.model_ledger import ModelLedger


class NoIncarnationInTheFold(ModelLedger):
    """Late records of an older incarnation count."""

    def fold(self, event: Event, offset: int) -> None:
        if isinstance(event, VoteCast | VoteRemoved):
            event = replace(event, incarnation=self.s.tally.fence)
        super().fold(event, offset)


class NoRunId(ModelLedger):
    """A restarted server that lost writes takes itself for the one before."""

    def restart(self, snapshot: Any, clock_step_ms: int = 0) -> None:
        super().restart(snapshot, clock_step_ms)
        self.run -= 1


class ClockForgottenWithoutAFence(ModelLedger):
    """A clock that was ahead goes back at once, while what it stamped is on its way."""

    def shut(self, incarnation: int, forget_clock: bool = False) -> Fence | None:
        if not forget_clock or not self.is_open():
            return super().shut(incarnation)
        self.s.clock = 0
        return None


class PendingOutlivesTheFence(ModelLedger):
    def drop_pending(self) -> None:
        pass


class ReleaseOfAnyIncarnation(ModelLedger):
    def may_release(self, incarnation: int) -> bool:
        return self.is_open()


class NoDedup(ModelLedger):
    def fold(self, event: Event, offset: int) -> None:
        if isinstance(event, VoteCast):
            event = replace(event, vote_id=f"{event.vote_id}@{offset}")
        super().fold(event, offset)


class NoCompareAndSet(ModelLedger):
    """A projector folds wherever the view stands."""

    def apply(self, start: Position, events: Any, end: int) -> None:
        self.s.position = Position(start.log_id, start.offset)
        super().apply(start, events, end)


class JoinerGoesByItsOwnConfiguration(ModelLedger):
    """Simulated by limits that the first attempt was not admitted by."""

    def joined(self, first: Reservation) -> Granted:
        return super().joined(first)._replace(max_participant=0, max_contest=0)


class ConfigurationByAnyonesWord(ModelLedger):
    """A sleeping projector's old version comes into force where none is."""

    def raise_config(self, contest: str, version: int) -> None:
        self.s.config[contest] = max(version, self.s.config.get(contest, UNLIMITED))


class ConfigurationReadTooEarly(ModelLedger):
    """A worker's word holds though its catalogue lacked what its log held when the gate was shut."""

    def need(self, fence: Fence, catalogue_end: int) -> None:
        pass


class RemovedFromUnderItsReplacement(ModelLedger):
    def is_being_replaced(self, book: Book, vote_id: str) -> bool:
        return False


class ReplacesWhatIsBeingRemoved(ModelLedger):
    def is_being_removed(self, contest: str, voter: str, vote_id: str | None) -> bool:
        return False


class ReliesOnPendingVotes(ModelLedger):
    """A vote takes no allowance where a pending one has its slot."""

    def replaces_in(self, book: Book, slot: str, source: str) -> bool:
        return super().replaces_in(book, slot, source) or any(r.slot == slot for r in book.pending)


class StaleBook(Book):
    """A vote that used no allowance at its reservation, as another had its slot, never will."""

    weightless: set[tuple[str, int]]

    def holding(self) -> Iterator[Reservation]:
        return (r for r in super().holding() if (r.command.vote_id, r.granted.accepted_at) not in self.weightless)


class ReplacementNotComputedAnew(ModelLedger):
    def __init__(self) -> None:
        super().__init__()
        self.weightless: set[tuple[str, int]] = set()

    def reserve(self, contest: Contest, command: CastVote, *, declined: bool = False) -> Answer:
        answer = super().reserve(contest, command, declined=declined)
        reserved = self.s.pending.get((command.contest, command.voter, command.vote_id))
        if reserved is not None and reserved not in self.book(contest.key, command.voter).holding():
            self.weightless.add((command.vote_id, reserved.granted.accepted_at))
        return answer

    def book(self, contest: str, voter: str) -> Book:
        book = super().book(contest, voter)
        stale = StaleBook(book.standing, book.pending)
        object.__setattr__(stale, "weightless", self.weightless)
        return stale


class ReopenedBeforeTheMark(ModelLedger):
    def is_reopened(self, contest: Contest) -> bool:
        return True


class BeginsPeriodsPastPendingVotes(ModelLedger):
    """Those of the last but one come late then, to sums that are merged."""

    def waits_for_former_period(self, book: Book, epoch: int) -> bool:
        return False


class VotersRemoveWhatIsVoided(ModelLedger):
    """A second DELETE is answered that a vote counts no more, which may be restored."""

    def _undecided(self, command: CastVote | RemoveVote, folded: FoldedVote | None) -> RemovalAnswer | None:
        if folded is not None and folded.status is VoteStatus.VOIDED and isinstance(command, RemoveVote):
            return NotCounted(VoteStatus.REMOVED, folded.offset)
        return super()._undecided(command, folded)


class ClosedWhileVotesArePending(ModelLedger):
    def closing(self, contest: str) -> ClosingState:
        removals = {key[1] for key in self.s.removals if key[0] == contest}
        return replace(super().closing(contest), pending=len(removals))


class ClosedWhileRemovalsArePending(ModelLedger):
    def closing(self, contest: str) -> ClosingState:
        votes = {key[1] for key in self.s.pending if key[0] == contest}
        return replace(super().closing(contest), pending=len(votes))


MODEL_MUTATIONS = [
    NoIncarnationInTheFold,
    NoRunId,
    PendingOutlivesTheFence,
    ClockForgottenWithoutAFence,
    ReleaseOfAnyIncarnation,
    NoDedup,
    NoCompareAndSet,
    JoinerGoesByItsOwnConfiguration,
    ConfigurationByAnyonesWord,
    ConfigurationReadTooEarly,
    RemovedFromUnderItsReplacement,
    ReplacesWhatIsBeingRemoved,
    ReliesOnPendingVotes,
    ReplacementNotComputedAnew,
    ReopenedBeforeTheMark,
    BeginsPeriodsPastPendingVotes,
    VotersRemoveWhatIsVoided,
    ClosedWhileVotesArePending,
    ClosedWhileRemovalsArePending,
]
VOID, REMOVE = ContestTally.void, ContestTally.remove
LUA_MUTATIONS = {
    "no incarnation in the fold": [("if n ~= state.fence then", "if false then")],
    "no run id": [("open = v[1] == 'open' and v[2] == run,", "open = v[1] == 'open',")],
    "pending outlives the fence": [("call('UNLINK', base .. ':pending', base .. ':due')", "")],
    "no dedup": [("if standing.records ~= '' and c:find(voter, standing, digest) then", "if false then")],
    "no compare-and-set": [
        (
            "if offset ~= tonumber(args[2]) or (log ~= '' and log ~= args[1]) then",
            "if log ~= '' and log ~= args[1] then",
        )
    ],
    "a joiner goes by its own limits": [
        (
            "p[P_CONFIG], p[P_MAX_P],\n    p[P_MAX_C],",
            "p[P_CONFIG], kind == 1 and 0 or p[P_MAX_P],\n    p[P_MAX_C],",
        )
    ],
    "confirm whatever the gate": [
        (
            "if not gate.open or gate.n ~= tonumber(incarnation) then return 0 end\n    call('HINCRBY'",
            "call('HINCRBY'",
        )
    ],
}
"""Mutations that faults reveal."""
ADMISSION_MUTATIONS = {
    "a replaced vote leaves its figures": [("move_choices(c, standing, replaced, -1, counted and -1 or 0)", "")],
    "a voter's next plain vote counts the voter again": [("key == by_row then in_row", "false then in_row")],
    "a removed vote keeps its slot": [("if slots[i] == digest then", "if false then")],
    "a replacement takes a period of its own": [("vote.epoch = replaced.epoch", "")],
    "the sums of the former period are merged": [("epoch < standing.epoch - 1 end", "epoch < standing.epoch end")],
    "merged sums forget whom votes count for": [("merged[at + 3] + sums[i + 3]", "merged[at + 3]")],
    "a removal does not find a merged sum": [
        (
            "sum_key(kept_epoch(standing, vote.source, vote.epoch), row.index, vote.source)",
            "sum_key(vote.epoch, row.index, vote.source)",
        )
    ],
    "a period begins while a vote of the last but one is pending": [
        ("if source == FREE and use.oldest < epoch - 1 then return { R_SHUT } end", "")
    ],
    "reopened before the mark": [("if reopened > 0 and c:reopened() < reopened then return { R_SHUT } end", "")],
    "a late mark closes what is being reopened": [("math.abs(where[at]) >= seq", "where[at] >= seq")],
    "a part of a reopening admits": [("if more then return true end", "")],
    "what waited takes effect out of order": [
        ("table.sort(found, function(a, b) return a[2][1] < b[2][1] end)", "")
    ],
    "closed while something is pending": [("pending = pending + 1", "pending = 0")],
    "reservations of replacements weigh as the others": [("then weight = 0 end", "then weight = 1 end")],
    "voiding gives the allowance back": [
        ("move_contest(c, standing, vote, 0, by)", "move_contest(c, standing, vote, by, by)")
    ],
    "an operation voids again and again": [("if operations[i] == operation then return false end", "")],
    "an operation restores what another one voided": [
        ("if operations[#operations] ~= operation then return false end", "")
    ],
    "what is not voided is restored": [("~= from then return false end", "== LATE then return false end")],
    "voids at once after the close": [
        ("return c:void_later(voter .. digest .. 'V', offset, restored, operation)", "")
    ],
    "a voided vote that is replaced counts no voter": [
        ("if not counted then move_contest(c, standing, vote, 0, 1) end", "")
    ],
    "a voided vote cannot be removed": [
        ("if status ~= COUNTED and status ~= VOIDED then", "if status ~= COUNTED then")
    ],
    "a voter takes back what was voided": [("(refund or find_pending(list, REMOVAL .. digest))", "true")],
}
"""Mutations that requests of voters reveal."""
