"""`tally void list`: lists operations that voided votes, and how many votes are still voided."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from libs.audit.historical_counts import EVER, fold_until
from libs.deployment.deployment import Deployment
from libs.tally.events import VoteVoided
from libs.tally.fold import ContestTally
from libs.tally.time_conversion import timestamp
from libs.tally.voter_ledger import VoteStatus
from services.cli.command_decorator import OneContest, command
from services.cli.contest_lookup import titles_by_key
from services.cli.render import Block, Rows


@dataclass(slots=True)
class Void:
    """One operation, in numbers of votes.

    `gone` were replaced or removed while voided; `waiting` are events after the contest's close, not included in
    the other numbers.
    """

    void: str
    contest: str
    title: str = field(default="", kw_only=True)
    voided_at: str | None
    reason: str
    voided: int = 0
    restored: int = 0
    gone: int = 0
    waiting: int = 0

    @property
    def still_voided(self) -> int:
        return self.voided - self.restored - self.gone


@dataclass(frozen=True, slots=True)
class Voids:
    voids: list[Void]


def _text(result: Voids) -> Iterator[Block]:
    numbers = "voided", "restored", "gone", "still_voided", "waiting"
    names = "void", "contest", "title", "voided_at", *numbers, "reason"
    yield Rows([{name: getattr(one, name) for name in names} for one in result.voids])
    if not result.voids:
        yield "No votes were ever voided."


@command(text=_text)
async def list_voids(
    deployment: Deployment,
    contest: OneContest = None,
) -> Voids:
    """List all operations that voided votes, with time, reason, and numbers of votes."""
    if contest is not None:
        await deployment.catalogue.owner_of(contest)
    voids = await read_voids(deployment, contest)
    titles = await titles_by_key(deployment, (one.contest for one in voids))
    return Voids([replace(one, title=titles[one.contest]) for one in voids])


async def read_voids(deployment: Deployment, contest: str | None) -> list[Void]:
    """Return the operations on one contest, or on all, in the order of time."""
    found: dict[tuple[str, str], Void] = {}
    folds, _, _ = await fold_until(deployment, contest, EVER)
    for fold in folds:
        for tally in fold.tally.contests.values():
            _add(found, tally)
    return sorted(found.values(), key=lambda each: each.voided_at or "")


def _add(found: dict[tuple[str, str], Void], tally: ContestTally) -> None:
    def row(event: VoteVoided) -> Void:
        new = Void(event.void, event.contest, timestamp(event.voided_at), event.reason)
        return found.setdefault((event.contest, event.void), new)

    for ledger in tally.voters.values():
        for vote in ledger.votes.values():
            for event in vote.voids:
                its = row(event)
                its.voided += 1
                if vote.void != event.void:
                    its.restored += 1
                elif vote.status is not VoteStatus.VOIDED:
                    its.gone += 1
    for event in _waiting(tally):
        row(event).waiting += 1


def _waiting(tally: ContestTally) -> Iterator[VoteVoided]:
    for (voter, vote_id), late in tally.waiting_voids.items():
        for event, _ in late:
            if isinstance(event, VoteVoided):
                yield event
                continue
            vote = tally.voters[voter].votes[vote_id]
            yield from (its for its in vote.voids if its.void == event.void)
