"""`tally void`: removes votes from the count, lists what was removed, and restores it."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Any, Final

from typer import Argument, Option
from uuid_utils import uuid7

from libs.audit.recount import (
    EVER,
    Ballots,
    Effect,
    VoidEvent,
    effect,
    fold_until,
    read_ballots,
)
from libs.concurrency.tasks import becomes_true, retried
from libs.contracts.codec import vote_codec
from libs.deployment.deployment import Deployment
from libs.tally.errors import NotFound, TallyError, ViewsUnavailable
from libs.tally.events import VoteRestored, VoteVoided
from libs.tally.fold import ContestTally
from libs.tally.time_conversion import timestamp
from libs.tally.voter_ledger import VoteStatus
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

AT_ONCE: Final = 500
ATTEMPTS: Final = 5
"""Attempts per record with an unknown outcome or an error: the fold ignores duplicates."""
FOLD_WAIT_S: Final = 30.0


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
    name = operation or _new_name()
    if operation is not None and operation not in ballots.voids:
        raise NotFound(
            f"Operation {operation} has voided nothing in this contest: omit --void to start a new operation."
        )
    reason = reason or ("" if operation is None else ballots.voids[operation].reason)
    now = time.time_ns() // 1000
    events = [
        (ballot.partition, VoteVoided(contest, ballot.voter, ballot.vote.cast.vote_id, name, now, reason))
        for ballot in ballots
        if ballot.vote.status is VoteStatus.COUNTED
        and matches(ballot.vote.cast)
        # an operation voids a vote only once, so restored votes stay restored
        and all(event.void != name for event in ballot.vote.voids)
    ]
    if execute:
        deployment.progress.note(f"Operation {name}.")
    again = f"tally void {contest} ... --void {name} --execute"
    return await _run(deployment, ballots, "voided", name, events, again, execute=execute)


def _new_name() -> str:
    """Return a short name; names sort by time."""
    made = uuid7().hex
    return f"{made[:12]}-{made[-6:]}"


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
    now = time.time_ns() // 1000
    events = [
        (ballot.partition, VoteRestored(contest, ballot.voter, ballot.vote.cast.vote_id, void, now))
        for ballot in ballots
        if ballot.vote.status is VoteStatus.VOIDED and ballot.vote.void == void
    ]
    again = f"tally void undo {contest} {void} --execute"
    return await _run(deployment, ballots, "restored", void, events, again, execute=execute)


async def _run(
    deployment: Deployment,
    ballots: Ballots,
    verb: str,
    void: str,
    events: Sequence[tuple[int, VoidEvent]],
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


async def append(deployment: Deployment, events: Sequence[tuple[int, VoidEvent]]) -> None:
    """Append each of `events` to its partition. Raises `LogUnavailable`; some may then be appended."""
    log, votes = await deployment.log(), deployment.votes.name

    async def append_one(partition: int, event: VoidEvent) -> None:
        value, key = vote_codec.encode(event), event.voter.encode()
        await retried(partial(log.append, votes, partition, value, key), ATTEMPTS)
        deployment.progress.advance(1)

    deployment.progress.begin("Recording", len(events))
    for at in range(0, len(events), AT_ONCE):
        await asyncio.gather(*(append_one(*event) for event in events[at : at + AT_ONCE]))


async def read_back(deployment: Deployment, ballots: Ballots, partitions: set[int]) -> dict[str, Any]:
    """Return the views' vote count record once `partitions` are folded to their current ends.

    Raises `ViewsUnavailable` after `FOLD_WAIT_S`.
    """
    topic, views = deployment.votes, deployment.vote_views
    ends = await deployment.reader.end_offsets(topic.name, partitions)

    async def has_folded() -> bool:
        states = await asyncio.gather(*map(views.state, ends))
        return all(state.position.offset >= end for state, end in zip(states, ends.values(), strict=True))

    if not await becomes_true(has_folded, FOLD_WAIT_S):
        late = f"All events are recorded, but were not processed within {FOLD_WAIT_S:.0f} s"
        raise ViewsUnavailable(late, retry_after_s=1)
    return await ballots.served(deployment)


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
    voids: dict[tuple[str, str], dict[str, Any]] = {}
    folds, _, _ = await fold_until(deployment, contest, EVER)
    for fold in folds:
        for tally in fold.tally.contests.values():
            _add(voids, tally)
    titles = await titles_by_key(deployment, (key for key, _ in voids))
    rows = sorted(voids.values(), key=lambda row: row["voided_at"] or "")
    for row in rows:
        row |= {
            "title": titles[row["contest"]],
            "still_voided": row["voided"] - row["restored"] - row["gone"],
        }
    return Result.listing("voids", rows, COLUMNS, none="No votes were ever voided.")


def _add(voids: dict[tuple[str, str], dict[str, Any]], tally: ContestTally) -> None:
    """Add the numbers of a contest's votes to its operations.

    `gone` were replaced or removed while voided; `waiting` are events after the contest's close, not included in
    the other numbers.
    """

    def count(event: VoteVoided, **numbers: int) -> None:
        new: dict[str, Any] = {"void": event.void, "contest": event.contest, "reason": event.reason}
        new |= {"voided_at": timestamp(event.voided_at), "voided": 0, "restored": 0, "gone": 0, "waiting": 0}
        row = voids.setdefault((event.contest, event.void), new)
        for name, number in numbers.items():
            row[name] += number

    for ledger in tally.voters.values():
        for vote in ledger.votes.values():
            for event in vote.voids:
                restored = vote.void != event.void
                gone = not restored and vote.status is not VoteStatus.VOIDED
                count(event, voided=1, restored=restored, gone=gone)
    for event in _waiting(tally):
        count(event, waiting=1)


def _waiting(tally: ContestTally) -> Iterator[VoteVoided]:
    for (voter, vote_id), late in tally.waiting_voids.items():
        for event, _ in late:
            if isinstance(event, VoteVoided):
                yield event
            else:
                vote = tally.voters[voter].votes[vote_id]
                yield from (voided for voided in vote.voids if voided.void == event.void)
