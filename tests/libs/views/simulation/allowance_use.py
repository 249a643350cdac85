"""A voter's use of an allowance, folded and pending, computed naively."""

from collections.abc import Iterator
from dataclasses import dataclass

from libs.tally.contest import Renewal
from libs.tally.events import replaces, slot, weight
from libs.tally.reservations import Granted
from libs.tally.vote_commands import CastVote
from libs.tally.voter_ledger import VoterLedger
from libs.views.ledger_scan import INLINE
from libs.views.reply_types import UsedVotes


@dataclass(slots=True)
class Reservation:
    command: CastVote
    granted: Granted
    attempts: int = 1

    @property
    def slot(self) -> str | None:
        granted = self.granted
        return slot(granted.form, granted.choices) if replaces(granted.form, granted.max_participant) else None

    @property
    def votes(self) -> Iterator[tuple[str, int]]:
        """Votes by participant, and in the contest ("")."""
        yield from self.granted.choices
        yield "", weight(self.granted.form, self.granted.choices)


@dataclass(frozen=True, slots=True)
class Book:
    """One voter of a contest; `pending` in the order of reservation."""

    standing: VoterLedger
    pending: list[Reservation]

    def period(self, renewal: Renewal, now: int) -> tuple[int, int | None]:
        """The allowance period that a free vote falls into at `now`, and when the next begins."""
        free = [r.granted for r in self.pending if r.command.source == "c-free"]
        epoch = max([self.standing.epoch, *(granted.epoch for granted in free)])
        latest = max([self.latest(), *(granted.accepted_at for granted in free)])
        renews_at = renewal.after(latest) if latest else None
        if renews_at is not None and now >= renews_at:
            return epoch + 1, None
        return epoch, renews_at

    def latest(self) -> int:
        """The time of the latest free vote; where spilled ones may be later, no earlier than that."""
        if self.standing.latest:
            return self.standing.latest
        kept = [vote.cast for vote in self.standing.votes.values()]
        free = [cast.accepted_at for cast in kept[-INLINE:] if cast.source == "c-free"]
        return max(free, default=kept[-INLINE].accepted_at if len(kept) > INLINE else 0)

    def holder(self, its_slot: str | None, source: str) -> str | None:
        """The folded vote that a new one would replace."""
        return None if its_slot is None else self.standing.slots.get((its_slot, source))

    def used(self, participant: str, source: str, epoch: int, but: str | None) -> int:
        """Votes used up, without those pending in the slot `but`."""
        pending = [r for r in self.holding() if but is None or r.slot != but]
        return sum(row.votes for row in self.rows(pending) if row[:3] == (participant, source, epoch))

    def holding(self) -> Iterator[Reservation]:
        """The reservations that hold an allowance: of a slot the first of a period, and none where it replaces."""
        taken = set()
        for r in self.pending:
            if r.slot is None:
                yield r
            elif (r.slot, r.command.source, r.granted.epoch) not in taken:
                taken.add((r.slot, r.command.source, r.granted.epoch))
                if self.holder(r.slot, r.command.source) is None:
                    yield r

    def rows(self, pending: list[Reservation]) -> list[UsedVotes]:
        folded = [UsedVotes(*key, used.votes) for key, used in self.standing.used.items()]
        return folded + [
            UsedVotes(name, r.command.source, r.granted.epoch, votes) for r in pending for name, votes in r.votes
        ]
