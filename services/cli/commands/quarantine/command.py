"""`tally quarantine`: records that could not be folded, and what becomes of them."""

import time
from dataclasses import replace
from hashlib import sha256
from typing import Annotated

import typer

from libs.monitoring.projection_names import Fold
from libs.monitoring.quarantine import Drop, keep
from libs.tally.errors import NotFound, TallyError
from libs.tally.time import timestamp
from services.cli.commands.quarantine import render as showing
from services.cli.commands.quarantine.records import Quarantined, QuarantineReader, open_ward
from services.cli.commands.quarantine.retry import choose, rebuild, try_again
from services.cli.commands.replay.context import Accept
from services.cli.commands.replay.render import show_rebuilt
from services.cli.discovery import DATA_DIR, find_deployment
from services.cli.operator import record_action
from services.cli.progress import ProgressBar
from services.cli.runner import AsJson, DataDir, ExitCode, print_json, run

app = typer.Typer(no_args_is_help=True, help="Records that could not be folded.")

OfTopic = Annotated[Fold | None, typer.Option("--topic", help="Only of this one.")]
Topic = Annotated[Fold, typer.Argument(help="Of which fold.", show_default=False)]
Partition = Annotated[int, typer.Argument(min=0, show_default=False)]
Offset = Annotated[int, typer.Argument(min=0, show_default=False)]
Execute = Annotated[bool, typer.Option("--execute", help="Do it; else it is only shown.")]


class CouldBeFolded(TallyError):
    """It cannot stay dropped: the next replay folds it."""

    code = "conflict"


@app.command("list")
def list_(
    topic: OfTopic = None,
    everything: Annotated[bool, typer.Option("--all", help="Also what was dropped.")] = False,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """What could not be folded, and why; what was dropped is left out."""

    async def work() -> ExitCode:
        async with open_ward(find_deployment(data_dir)) as ward:
            found = await _read(ward, topic, bar=not as_json)
        shown = [one for one in found if everything or one.drop is None]
        if as_json:
            print_json({"records": [showing.as_json(one) for one in shown], "hidden": len(found) - len(shown)})
        else:
            showing.show_list(shown, len(found) - len(shown))
        return ExitCode.FINE

    run(work())


@app.command()
def show(
    topic: Topic, partition: Partition, offset: Offset, data_dir: DataDir = DATA_DIR, as_json: AsJson = False
) -> None:
    """A record as it lies in the log, its headers, and why it was not folded."""

    async def work() -> ExitCode:
        async with open_ward(find_deployment(data_dir)) as ward:
            one = await _find(ward, topic, partition, offset)
        if as_json:
            print_json(showing.whole_as_json(one))
        else:
            showing.show_whole(one)
        return ExitCode.FINE

    run(work())


@app.command()
def drop(
    topic: Topic,
    partition: Partition,
    offset: Offset,
    reason: Annotated[str | None, typer.Option("--reason", help="Kept with the decision.")] = None,
    execute: Execute = False,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Decide never to fold a record. The log is not changed; the decision is kept in the object store.

    It outlives every replay. What today's code can fold is not dropped, since the next replay folds it; where
    later code could fold what was dropped, `retry` leaves that partition as it is.
    """

    async def work() -> ExitCode:
        stack = find_deployment(data_dir)
        async with open_ward(stack) as ward:
            one = await _find(ward, topic, partition, offset)
            if one.drop is None and try_again(one).foldable:
                raise CouldBeFolded(
                    f"Today's code can fold {one.where}: the next replay will, whatever is decided here. "
                    f"`tally quarantine retry --topic {one.fold}` folds it now."
                )
            if execute and one.drop is None:
                await record_action(stack, "quarantined record dropped", record=one.where, reason=reason)
                one = replace(one, drop=await keep(ward.store, _decision(ward, one, reason)))
        if as_json:
            print_json(showing.as_json(one) | {"executed": execute})
        else:
            showing.show_drop(one)
        return ExitCode.FINE

    run(work())


@app.command()
def retry(
    topic: OfTopic = None,
    execute: Execute = False,
    accept: Accept = False,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Read what is in quarantine with today's code, and fold the partitions anew of which it can fold more.

    That is done as by `tally replay run`: beside the live views, which readers see until it is verified. Votes are
    compared with the log; the catalogue and purchases with what is read now, and since they should differ from
    that, --accept-differences is wanted.
    """

    async def work() -> ExitCode:
        stack = find_deployment(data_dir)
        async with open_ward(stack) as ward:
            trials = [try_again(one) for one in await _read(ward, topic, bar=not as_json)]
        chosen, done = choose(trials), []
        if not as_json:
            showing.show_trials(trials, chosen, execute=execute)
        if execute:
            for fold, partitions in chosen.partitions.items():
                where = " ".join(map(str, sorted(partitions)))
                await record_action(
                    stack, "quarantine retried", topic=fold, partitions=where, accept_differences=accept
                )
            async for rebuilt in rebuild(stack, chosen, accept=accept, quiet=as_json):
                done.append(rebuilt)
                if not as_json:
                    show_rebuilt(rebuilt)
        if as_json:
            print_json(showing.trials_as_json(trials, chosen, done))
        fine = not chosen.forbidding and all(one.swapped for one in done)
        return ExitCode.FINE if fine else ExitCode.PROBLEM

    run(work())


async def _read(ward: QuarantineReader, topic: Fold | None, *, bar: bool) -> list[Quarantined]:
    with ProgressBar("Reading the log", enabled=bar) as progress:
        folds = list(Fold) if topic is None else [topic]
        return [one for fold in folds for one in await ward.all_of(fold, progress)]


async def _find(ward: QuarantineReader, fold: Fold, partition: int, offset: int) -> Quarantined:
    partitions = ward.folds[fold].topic.partitions
    if partition >= partitions:
        raise typer.BadParameter(f"{fold} has partitions 0 to {partitions - 1}.", param_hint="PARTITION")
    found = await ward.find(fold, partition, offset)
    if found is None:
        raise NotFound(
            f"{fold} {partition} {offset} is not in quarantine. `tally quarantine list --all` says what is."
        )
    return found


def _decision(ward: QuarantineReader, one: Quarantined, reason: str | None) -> Drop:
    return Drop(
        topic=ward.folds[one.fold].topic.name,
        partition=one.partition,
        offset=one.record.offset,
        log_id=one.position.log_id,
        sha256=sha256(one.value).hexdigest(),
        quarantined_for=one.reason,
        dropped_at=timestamp(time.time_ns() // 1000) or "",
        reason=reason,
    )
