"""`tally void`: removes votes from the count, lists what was removed, and restores it."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Annotated, Final

from typer import Argument, Option

from libs.audit.recount import EVER, Ballots, Effect, effect, fold_until, read_ballots
from libs.audit.voiding import PlacedEvent, append, name_of_void, operations, read_back, restoring, voiding
from libs.deployment.deployment import Deployment
from libs.tally.errors import NotFound, TallyError
from services.cli.command_decorator import (
    ContestKey,
    Execute,
    OneContest,
    command,
    command_group,
    named,
    titles_by_key,
)
from services.cli.operator_actions import record_action
from services.cli.output import Block, Result, Rows, plural
from services.cli.vote_selection import VoteSelection

app = command_group("Remove votes from the count, or restore them; `run` may be omitted.", "run")


@command(app, "run")
async def void(
    deployment: Deployment,
    contest: ContestKey,
    selection: VoteSelection,
    reason: Annotated[str, Option(help="Reason, stored in the log.")] = "",
    operation: Annotated[str | None, Option("--void", help="Resume this interrupted operation.")] = None,
    execute: Execute = False,
) -> Result:
    """Remove votes from the count: those that count now and match all given options.

    Their allowances stay used, and a rating or ballot can still be replaced. Votes cast meanwhile are not
    affected. `tally void undo` restores the votes.
    """
    selection.check()
    ballots = await read_ballots(deployment, contest)
    matches = await selection.matcher(deployment, ballots.contest)
    name = operation or name_of_void()
    if operation is not None and operation not in ballots.voids:
        raise NotFound(
            f"Operation {operation} has voided nothing in this contest: omit --void to start a new operation."
        )
    reason = reason or ("" if operation is None else ballots.voids[operation].reason)
    events = voiding(ballots, matches, name, reason)
    if execute:
        deployment.progress.note(f"Operation {name}.")
    again = f"tally void {contest} ... --void {name} --execute"
    return await _run(deployment, ballots, "voided", name, events, again, execute=execute)


@command(app)
async def undo(
    deployment: Deployment,
    contest: ContestKey,
    void: Annotated[str, Argument(help="Name of the operation, from `tally void list`.")],
    execute: Execute = False,
) -> Result:
    """Restore the votes that an operation voided, except those replaced or removed since.

    Run it again to resume after an interruption.
    """
    ballots = await read_ballots(deployment, contest)
    if void not in ballots.voids:
        raise NotFound(
            f"Operation {void} has voided nothing in contest {contest}: `tally void list` lists all operations."
        )
    events = restoring(ballots, void)
    again = f"tally void undo {contest} {void} --execute"
    return await _run(deployment, ballots, "restored", void, events, again, execute=execute)


async def _run(
    deployment: Deployment,
    ballots: Ballots,
    verb: str,
    void: str,
    events: Sequence[PlacedEvent],
    again: str,
    *,
    execute: bool,
) -> Result:
    """Return the effect, or execute the operation and return the views' counts.

    `again` is the command that resumes it after an interruption. Raises as `append` and `read_back`.
    """
    before = ballots.record()
    for partition, event in events:
        ballots.fold(partition, event)
    after, contest = ballots.record(), ballots.contest.key
    if execute and events:
        await record_action(deployment, f"votes {verb}", contest=contest, void=void, votes=len(events))
        try:
            await append(deployment, events)
        except TallyError as error:
            error.message = f"{error.message.rstrip('.')}. Part of it may be recorded: resume with `{again}`."
            raise
        recorded = await read_back(deployment, ballots, {partition for partition, _ in events})
        after = after if ballots.is_over else recorded
    found = effect(ballots, before, after, events, void=void, executed=execute)
    return Result(found, _text(found, verb))


def _text(result: Effect, verb: str) -> Iterator[Block]:
    """Yield the participants, the most affected first, the contest, and last the outcome."""
    yield Rows(
        [
            {
                "participant": row.participant_key,
                "title": row.title,
                "votes": str(row.count),
                "rank": str(row.rank),
                "voters": str(row.unique_voter_count),
            }
            for row in result.participants
        ]
    )
    total, contest = result.contest, named(result.contest_key, result.title)
    about = f"{plural(result.votes, 'vote')} of {plural(result.voters, 'voter')}"
    yield f"Contest {contest}: {total.count} votes, {total.unique_voter_count} voters."
    offsets = " ".join(f"{partition}:{offset}" for partition, offset in sorted(result.positions.items()))
    yield f"By the log as of {result.at}; later votes are not affected. Positions: {offsets}"
    if result.executed and result.votes and verb == "voided":
        yield f"`tally void undo {result.contest_key} {result.void} --execute` restores these votes."
    waits = result.waits_for_reopening
    if not result.votes:
        yield f"No votes can be {verb}."
    elif not result.executed:
        effect = "The contest is over: this changes its result only after `tally reopen`. " if waits else ""
        yield f"{about} would be {verb}. {effect}Run again with --execute to record it."
    elif waits:
        yield f"Operation {result.void}: {about}."
        yield "Recorded; the result does not change until `tally reopen`."
    else:
        yield f"{verb.capitalize()}: {about}, as {result.void}."


COLUMNS: Final = "void contest title voided_at voided restored gone still_voided waiting reason"


@command(app, "list")
async def list_voids(deployment: Deployment, contest: OneContest = None) -> Result:
    """List all operations that voided votes, with time, reason, and numbers of votes."""
    if contest is not None:
        await deployment.catalogue.owner_of(contest)
    folds, _, _ = await fold_until(deployment, contest, EVER)
    found = operations(tally for fold in folds for tally in fold.tally.contests.values())
    titles = await titles_by_key(deployment, (operation.contest for operation in found))
    rows = [
        asdict(operation) | {"title": titles[operation.contest], "still_voided": operation.still_voided}
        for operation in found
    ]
    return Result.listing("voids", rows, COLUMNS, none="No votes were ever voided.")
