"""`tally void`: removes votes from the count."""

import time
from pathlib import Path
from typing import Annotated

import typer
from uuid_utils import uuid7

from libs.audit.recount import Ballots, read_ballots
from libs.deployment.deployment import Deployment
from libs.tally.errors import NotFound
from libs.tally.events import VoteVoided
from libs.tally.voter_ledger import VoteStatus
from services.cli.command_decorator import ContestKey, Execute, command
from services.cli.commands.void.operation import Operation
from services.cli.commands.void.render import VoidResult, void_text
from services.cli.commands.void.selection import Options, Selection, selection


@command(text=void_text)
async def void(
    deployment: Deployment,
    contest: ContestKey,
    address: Annotated[
        str | None, typer.Option("--address", help="Cast from this IP address; IPv6: from its /64.")
    ] = None,
    since: Annotated[str | None, typer.Option("--from", help="Accepted at this time or later.")] = None,
    until: Annotated[str | None, typer.Option("--until", help="Accepted before this time.")] = None,
    voters: Annotated[
        Path | None,
        typer.Option("--voters", exists=True, dir_okay=False, help="Of the voters in this file, one id per line."),
    ] = None,
    anonymous: Annotated[
        Path | None,
        typer.Option(
            "--anonymous", exists=True, dir_okay=False, help="Of the anonymous voters in this file, too."
        ),
    ] = None,
    source: Annotated[str | None, typer.Option("--source", help="c-free or c-paid.")] = None,
    platform: Annotated[str | None, typer.Option("--platform", help="ios, android or web.")] = None,
    participant: Annotated[
        str | None, typer.Option("--participant", help="For the participant with this key.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All votes of the contest.")] = False,
    reason: Annotated[str, typer.Option("--reason", help="Reason, stored in the log.")] = "",
    operation: Annotated[str | None, typer.Option("--void", help="Resume this interrupted operation.")] = None,
    execute: Execute = False,
) -> VoidResult:
    """Remove votes from the count: those that count now and match all given options.

    Their allowances stay used, and a rating or ballot can still be replaced. Votes cast meanwhile are not
    affected. `tally void undo` restores the votes.
    """
    options = Options(address, since, until, voters, anonymous, source, platform, participant, everything)
    options.check()
    ballots = await read_ballots(deployment, contest)
    wanted = await selection(deployment, contest, options)
    if participant is not None and participant not in ballots.contest.participants:
        raise typer.BadParameter(f"The contest has no participant {participant}.", param_hint="--participant")
    name = operation or _new_name()
    found = _selected(ballots, wanted, name, _reason(ballots, operation, reason))
    if execute:
        deployment.progress.note(f"Operation {name}.")
    again = f"tally void {contest} ... --void {name} --execute"
    return await Operation(name, "voided", again, ballots, found).run(deployment, execute=execute)


def _new_name() -> str:
    """Return a short name; names sort by time."""
    made = uuid7().hex
    return f"{made[:12]}-{made[-6:]}"


def _reason(ballots: Ballots, operation: str | None, given: str) -> str:
    """Return the given reason, or that of the resumed operation. Raises `NotFound`."""
    if operation is None:
        return given
    begun = ballots.voids.get(operation)
    if begun is None:
        raise NotFound(
            f"Operation {operation} has voided nothing in this contest: omit --void to start a new operation."
        )
    return given or begun.reason


def _selected(ballots: Ballots, wanted: Selection, void: str, reason: str) -> list[tuple[int, VoteVoided]]:
    """Return the events to append; an operation voids a vote only once, so restored votes stay restored."""
    now, key = time.time_ns() // 1000, ballots.contest.key
    return [
        (ballot.partition, VoteVoided(key, ballot.voter, ballot.vote.cast.vote_id, void, now, reason))
        for ballot in ballots
        if ballot.vote.status is VoteStatus.COUNTED
        and wanted.has(ballot.vote.cast)
        and all(event.void != void for event in ballot.vote.voids)
    ]
