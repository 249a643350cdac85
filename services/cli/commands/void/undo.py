"""`tally void undo`: restores the votes that an operation voided."""

import time
from typing import Annotated

import typer

from libs.audit.recount import Ballots, read_ballots
from libs.deployment.deployment import Deployment
from libs.tally.errors import NotFound
from libs.tally.events import VoteRestored
from libs.tally.voter_ledger import VoteStatus
from services.cli.command_decorator import ContestKey, Execute, command
from services.cli.commands.void.operation import Operation
from services.cli.commands.void.render import VoidResult, void_text


@command(text=void_text)
async def undo(
    deployment: Deployment,
    contest: ContestKey,
    void: Annotated[str, typer.Argument(help="Name of the operation, from `tally void list`.")],
    execute: Execute = False,
) -> VoidResult:
    """Restore the votes that an operation voided, except those replaced or removed since.

    Run it again to resume after an interruption.
    """
    ballots = await read_ballots(deployment, contest)
    if void not in ballots.voids:
        raise NotFound(
            f"Operation {void} has voided nothing in contest {contest}: `tally void list` lists all operations."
        )
    again = f"tally void undo {contest} {void} --execute"
    return await Operation(void, "restored", again, ballots, _voided(ballots, void)).run(
        deployment, execute=execute
    )


def _voided(ballots: Ballots, void: str) -> list[tuple[int, VoteRestored]]:
    now, key = time.time_ns() // 1000, ballots.contest.key
    return [
        (ballot.partition, VoteRestored(key, ballot.voter, ballot.vote.cast.vote_id, void, now))
        for ballot in ballots
        if ballot.vote.status is VoteStatus.VOIDED and ballot.vote.void == void
    ]
