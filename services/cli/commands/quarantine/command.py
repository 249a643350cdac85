"""`tally quarantine`: lists, shows, drops and retries quarantined records."""

import time
from dataclasses import replace
from hashlib import sha256
from typing import Annotated

import typer

from libs.monitoring.projection_names import Fold
from libs.monitoring.quarantine import Drop, keep
from libs.tally.errors import NotFound, TallyError
from libs.tally.time import timestamp
from services.cli.commands.quarantine import render
from services.cli.commands.quarantine.records import Quarantined, QuarantineReader, open_quarantine
from services.cli.commands.quarantine.retry import choose, rebuild, try_again
from services.cli.commands.replay.context import Accept
from services.cli.commands.replay.render import show_rebuilt
from services.cli.discovery import DATA_DIR, find_deployment
from services.cli.operator import record_action
from services.cli.progress import ProgressBar
from services.cli.runner import AsJson, DataDir, ExitCode, print_json, run

app = typer.Typer(no_args_is_help=True, help="Records that could not be folded.")

OfTopic = Annotated[Fold | None, typer.Option("--topic", help="Only this topic.")]
Topic = Annotated[Fold, typer.Argument(help="Topic of the record.", show_default=False)]
Partition = Annotated[int, typer.Argument(min=0, show_default=False)]
Offset = Annotated[int, typer.Argument(min=0, show_default=False)]
Execute = Annotated[bool, typer.Option("--execute", help="Execute it; default: only show the effect.")]


class CouldBeFolded(TallyError):
    """The record cannot be dropped: the next replay folds it."""

    code = "conflict"


@app.command("list")
def list_(
    topic: OfTopic = None,
    everything: Annotated[bool, typer.Option("--all", help="Include dropped records.")] = False,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """List the records that could not be folded, with the reasons, except for dropped ones."""

    async def work() -> ExitCode:
        async with open_quarantine(find_deployment(data_dir)) as reader:
            found = await _read(reader, topic, bar=not as_json)
        shown = [one for one in found if everything or one.drop is None]
        if as_json:
            print_json({"records": [render.as_json(one) for one in shown], "hidden": len(found) - len(shown)})
        else:
            render.show_list(shown, len(found) - len(shown))
        return ExitCode.FINE

    run(work())


@app.command()
def show(
    topic: Topic, partition: Partition, offset: Offset, data_dir: DataDir = DATA_DIR, as_json: AsJson = False
) -> None:
    """Show a record of the log with its headers and the reason why it was not folded."""

    async def work() -> ExitCode:
        async with open_quarantine(find_deployment(data_dir)) as reader:
            one = await _find(reader, topic, partition, offset)
        if as_json:
            print_json(render.whole_as_json(one))
        else:
            render.show_whole(one)
        return ExitCode.FINE

    run(work())


@app.command()
def drop(
    topic: Topic,
    partition: Partition,
    offset: Offset,
    reason: Annotated[str | None, typer.Option("--reason", help="Reason, stored with the decision.")] = None,
    execute: Execute = False,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Decide never to fold a record. The log is not changed; the decision is stored in the object store.

    The decision applies to all replays. A record that this version can fold is not dropped, since the next replay
    folds it; if a later version can fold a dropped record, `retry` does not rebuild that partition.
    """

    async def work() -> ExitCode:
        stack = find_deployment(data_dir)
        async with open_quarantine(stack) as reader:
            one = await _find(reader, topic, partition, offset)
            if one.drop is None and try_again(one).foldable:
                raise CouldBeFolded(
                    f"This version can fold {one.where}, so the next replay will fold it. "
                    f"`tally quarantine retry --topic {one.fold}` folds it now."
                )
            if execute and one.drop is None:
                await record_action(stack, "quarantined record dropped", record=one.where, reason=reason)
                one = replace(one, drop=await keep(reader.store, _decision(reader, one, reason)))
        if as_json:
            print_json(render.as_json(one) | {"executed": execute})
        else:
            render.show_drop(one)
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
    """Decode the quarantined records with this version, and rebuild the partitions in which it can fold more.

    Like `tally replay run` this builds a new copy of the views; readers use the current one until the new one is
    verified. Votes are compared with the log; the catalogue and purchases with the current views, and since these
    are meant to differ, --accept-differences is required.
    """

    async def work() -> ExitCode:
        stack = find_deployment(data_dir)
        async with open_quarantine(stack) as reader:
            trials = [try_again(one) for one in await _read(reader, topic, bar=not as_json)]
        chosen, done = choose(trials), []
        if not as_json:
            render.show_trials(trials, chosen, execute=execute)
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
            print_json(render.trials_as_json(trials, chosen, done))
        fine = not chosen.forbidding and all(one.swapped for one in done)
        return ExitCode.FINE if fine else ExitCode.PROBLEM

    run(work())


async def _read(reader: QuarantineReader, topic: Fold | None, *, bar: bool) -> list[Quarantined]:
    with ProgressBar("Reading the log", enabled=bar) as progress:
        folds = list(Fold) if topic is None else [topic]
        return [one for fold in folds for one in await reader.all_of(fold, progress)]


async def _find(reader: QuarantineReader, fold: Fold, partition: int, offset: int) -> Quarantined:
    partitions = reader.folds[fold].topic.partitions
    if partition >= partitions:
        raise typer.BadParameter(f"{fold} has partitions 0 to {partitions - 1}.", param_hint="PARTITION")
    found = await reader.find(fold, partition, offset)
    if found is None:
        raise NotFound(
            f"{fold} {partition} {offset} is not in quarantine. `tally quarantine list --all` lists all records."
        )
    return found


def _decision(reader: QuarantineReader, one: Quarantined, reason: str | None) -> Drop:
    return Drop(
        topic=reader.folds[one.fold].topic.name,
        partition=one.partition,
        offset=one.record.offset,
        log_id=one.position.log_id,
        sha256=sha256(one.value).hexdigest(),
        quarantined_for=one.reason,
        dropped_at=timestamp(time.time_ns() // 1000) or "",
        reason=reason,
    )
