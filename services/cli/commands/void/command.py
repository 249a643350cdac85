"""`tally void`: removes votes from the count, lists what was removed, and restores it."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from uuid_utils import uuid7

from libs.audit.recount import EVER, Ballots, fold_until, read_ballots
from libs.deployment.deployment import Deployment
from libs.tally.errors import NotFound
from libs.tally.events import VoteRestored, VoteVoided
from libs.tally.fold import ContestTally
from libs.tally.time_conversion import timestamp
from libs.tally.voter_ledger import VoteStatus
from services.cli.command_decorator import ContestKey, Execute, OneContest, command, command_group
from services.cli.commands.void.operation import Operation, Options, VoidResult, VoteFilter, selection, void_text
from services.cli.contest_lookup import titles_by_key
from services.cli.operator_actions import AuditedGroup
from services.cli.render import Block, Rows


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


def _selected(ballots: Ballots, wanted: VoteFilter, void: str, reason: str) -> list[tuple[int, VoteVoided]]:
    """Return the events to append; an operation voids a vote only once, so restored votes stay restored."""
    now, key = time.time_ns() // 1000, ballots.contest.key
    return [
        (ballot.partition, VoteVoided(key, ballot.voter, ballot.vote.cast.vote_id, void, now, reason))
        for ballot in ballots
        if ballot.vote.status is VoteStatus.COUNTED
        and wanted.has(ballot.vote.cast)
        and all(event.void != void for event in ballot.vote.voids)
    ]


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


class DefaultRunGroup(AuditedGroup):
    """Runs `tally void CONTEST ...` as `tally void run CONTEST ...`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = not args or args[0] in self.commands or args[0] in ctx.help_option_names
        return super().parse_args(ctx, args if named else ["run", *args])


app = command_group("Remove votes from the count, or restore them; `run` may be omitted.", DefaultRunGroup)
app.command("run")(void)
app.command("list")(list_voids)
app.command()(undo)
