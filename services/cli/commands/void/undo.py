"""`tally void undo`: restores the votes that an operation voided."""

import time
from typing import Annotated

import typer

from libs.audit.ballots import Ballots, read_ballots
from libs.audit.log_fold import without_gc
from libs.deployment.deployment import Deployment
from libs.tally.errors import NotFound
from libs.tally.events import VoteRestored
from libs.tally.voter_ledger import VoteStatus
from services.cli.commands.void.list_ import read_voids
from services.cli.commands.void.operation import Operation
from services.cli.discovery import DATA_DIR, find_deployment
from services.cli.progress import ProgressBar
from services.cli.runner import AsJson, DataDir, ExitCode, run


def undo(
    void: Annotated[str, typer.Argument(help="Name of the operation, from `tally void list`.")],
    contest: Annotated[
        str | None, typer.Option("--contest", help="Contest of the operation; default: searched in the whole log.")
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Execute it; default: only show the effect.")] = False,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Restore the votes that an operation voided, except those replaced or removed since.

    Run it again to resume after an interruption.
    """

    async def work() -> ExitCode:
        stack = find_deployment(data_dir)
        key = contest or await _contest_of(stack, void, in_json=as_json)
        with ProgressBar("Folding the log", enabled=not as_json) as progress, without_gc():
            ballots = await read_ballots(stack, key, progress)
        if void not in ballots.voids:
            raise NotFound(
                f"Operation {void} has voided nothing in contest {key}: `tally void list` lists all operations."
            )
        again = f"tally void undo {void} --execute"
        await Operation(void, "restored", again, ballots, _voided(ballots, void)).run(
            stack, execute=execute, in_json=as_json
        )
        return ExitCode.FINE

    run(work())


async def _contest_of(stack: Deployment, void: str, *, in_json: bool) -> str:
    """Find the operation's contest. Raises `NotFound`."""
    with ProgressBar("Searching the log", enabled=not in_json) as progress, without_gc():
        found = {row.void: row.contest for row in await read_voids(stack, None, progress)}
    if void not in found:
        raise NotFound(f"There is no operation {void}: `tally void list` lists all.")
    return found[void]


def _voided(ballots: Ballots, void: str) -> list[tuple[int, VoteRestored]]:
    now, key = time.time_ns() // 1000, ballots.contest.key
    return [
        (ballot.partition, VoteRestored(key, ballot.voter, ballot.vote.cast.vote_id, void, now))
        for ballot in ballots
        if ballot.vote.status is VoteStatus.VOIDED and ballot.vote.void == void
    ]
