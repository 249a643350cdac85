"""`tally void list`: lists operations that voided votes, and how many votes are still voided."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from libs.audit.historical_counts import EVER, fold_until, read_contest
from libs.audit.log_fold import without_gc
from libs.deployment.deployment import Deployment
from libs.kafka.reader import LogReader
from libs.tally.events import VoteVoided
from libs.tally.fold import ContestTally
from libs.tally.time import timestamp
from libs.tally.voter_ledger import VoteStatus
from libs.telemetry.progress import Progress
from services.cli.discovery import DATA_DIR, find_deployment
from services.cli.progress import ProgressBar
from services.cli.runner import AsJson, DataDir, ExitCode, print_json, run


@dataclass(slots=True)
class Void:
    """One operation, in numbers of votes.

    `gone` were replaced or removed while voided; `waiting` are events after the contest's close, not included in
    the other numbers.
    """

    void: str
    contest: str
    voided_at: int
    reason: str
    voided: int = 0
    restored: int = 0
    gone: int = 0
    waiting: int = 0

    @property
    def still_voided(self) -> int:
        return self.voided - self.restored - self.gone

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"voided_at": timestamp(self.voided_at), "still_voided": self.still_voided}


def list_voids(
    contest: Annotated[str | None, typer.Option("--contest", help="Only this contest.")] = None,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """List all operations that voided votes, with time, reason, and numbers of votes."""

    async def work() -> ExitCode:
        stack = find_deployment(data_dir)
        if contest is not None:
            await read_contest(stack, contest)
        with ProgressBar("Folding the log", enabled=not as_json) as progress, without_gc():
            found = await read_voids(stack, contest, progress)
        if as_json:
            print_json({"voids": [each.as_json() for each in found]})
        else:
            show(found)
        return ExitCode.FINE

    run(work())


async def read_voids(stack: Deployment, contest: str | None, progress: Progress) -> list[Void]:
    """Return the operations on one contest, or on all, in the order of time."""
    found: dict[tuple[str, str], Void] = {}
    async with LogReader(stack.kafka_settings) as reader:
        folds, _, _ = await fold_until(stack, reader, contest, EVER, progress)
    for fold in folds:
        for tally in fold.tally.contests.values():
            _add(found, tally)
    return sorted(found.values(), key=lambda each: each.voided_at)


def _add(found: dict[tuple[str, str], Void], tally: ContestTally) -> None:
    def row(event: VoteVoided) -> Void:
        new = Void(event.void, event.contest, event.voided_at, event.reason)
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


def show(found: list[Void]) -> None:
    """Print a table on a terminal, otherwise one line per operation."""
    console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
    if not found:
        console.out("No votes were ever voided.")
        return
    names = "void", "contest", "voided_at", "voided", "restored", "gone", "still_voided", "waiting", "reason"
    rows = [[str(each.as_json()[name]) for name in names] for each in found]
    if console.is_terminal:
        table = Table(*(name.replace("_", " ") for name in names), box=None)
        for row in rows:
            table.add_row(*row)
        console.print(table, soft_wrap=False)
    else:
        for row in rows:
            console.out(" ".join(f"{name}={value or '-'}" for name, value in zip(names, row, strict=True)))
