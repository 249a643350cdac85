"""`tally quarantine`: lists, shows, drops and retries quarantined records."""

import time
from dataclasses import replace
from hashlib import sha256
from typing import Annotated

import typer

from libs.deployment.deployment import Deployment
from libs.monitoring.lag import ProjectionName
from libs.monitoring.quarantine import Drop, keep
from libs.replay.job import Rebuilt
from libs.tally.errors import NotFound, TallyError
from libs.tally.time_conversion import timestamp
from services.cli.command_decorator import Execute, command, command_group
from services.cli.commands.quarantine.records import Quarantined, QuarantineReader, open_quarantine
from services.cli.commands.quarantine.render import (
    Dropped,
    Records,
    Retried,
    WholeRecord,
    drop_text,
    list_text,
    record_text,
    retry_text,
)
from services.cli.commands.quarantine.retry import choose, rebuild, try_again
from services.cli.commands.replay import Accept
from services.cli.operator_actions import record_action

app = command_group("Records that could not be processed.")

OfTopic = Annotated[ProjectionName | None, typer.Option("--topic", help="Only this topic.")]
Topic = Annotated[ProjectionName, typer.Argument(help="Topic of the record.", show_default=False)]
Partition = Annotated[int, typer.Argument(min=0, show_default=False)]
Offset = Annotated[int, typer.Argument(min=0, show_default=False)]


class CouldBeProcessed(TallyError):
    """The record cannot be dropped: the next replay processes it."""

    code = "conflict"


@app.command("list")
@command(text=list_text)
async def list_(
    deployment: Deployment,
    topic: OfTopic = None,
    everything: Annotated[bool, typer.Option("--all", help="Include dropped records.")] = False,
) -> Records:
    """List the records that could not be processed, with the reasons, except for dropped ones."""
    found = await _read(deployment, topic)
    shown = [one for one in found if everything or one.drop is None]
    return Records(shown, len(found) - len(shown))


@app.command()
@command(text=record_text)
async def show(deployment: Deployment, topic: Topic, partition: Partition, offset: Offset) -> WholeRecord:
    """Show a record of the log with its headers and the reason why it was not processed."""
    async with open_quarantine(deployment) as reader:
        return WholeRecord.of(await _find(reader, topic, partition, offset))


@app.command()
@command(text=drop_text)
async def drop(
    deployment: Deployment,
    topic: Topic,
    partition: Partition,
    offset: Offset,
    reason: Annotated[str | None, typer.Option("--reason", help="Reason, stored with the decision.")] = None,
    execute: Execute = False,
) -> Dropped:
    """Decide never to process a record. The log is not changed; the decision is stored in the object store.

    The decision applies to all replays. A record that this version can process is not dropped, since the next
    replay processes it; if a later version can process a dropped record, `retry` does not rebuild that partition.
    """
    async with open_quarantine(deployment) as reader:
        one = await _find(reader, topic, partition, offset)
    if one.drop is None and try_again(one).processable:
        raise CouldBeProcessed(
            f"This version can process {one.where()}, so the next replay will process it. "
            f"`tally quarantine retry --topic {one.topic}` processes it now."
        )
    if execute and one.drop is None:
        await record_action(deployment, "quarantined record dropped", record=one.where(), reason=reason)
        one = replace(one, drop=await keep(deployment.store, _decision(one, reason)))
    return Dropped(one, execute)


@app.command()
@command(
    text=retry_text,
    is_fine=lambda result: not result.forbidding and all(one.swapped for one in result.rebuilt),
)
async def retry(
    deployment: Deployment, topic: OfTopic = None, execute: Execute = False, accept: Accept = False
) -> Retried:
    """Decode the quarantined records with this version, and rebuild the partitions in which it can process more.

    Like `tally replay run` this builds a new copy of the views; readers use the current one until the new one is
    verified. Votes are compared with the log; the catalogue and purchases with the current views, and since these
    are meant to differ, --accept-differences is required.
    """
    trials = [try_again(one) for one in await _read(deployment, topic)]
    chosen, done = choose(trials), list[Rebuilt]()
    if execute:
        for projection, partitions in chosen.partitions.items():
            where = " ".join(map(str, sorted(partitions)))
            await record_action(
                deployment, "quarantine retried", topic=projection, partitions=where, accept_differences=accept
            )
        done = [rebuilt async for rebuilt in rebuild(deployment, chosen, accept=accept)]
    return Retried(trials, chosen.partitions, chosen.forbidding, done, execute)


async def _read(deployment: Deployment, topic: ProjectionName | None) -> list[Quarantined]:
    deployment.progress.begin("Reading the log", None)
    async with open_quarantine(deployment) as reader:
        return [
            one for projection in ([topic] if topic else ProjectionName) for one in await reader.all_of(projection)
        ]


async def _find(reader: QuarantineReader, projection: ProjectionName, partition: int, offset: int) -> Quarantined:
    partitions = reader.projections[projection].topic.numbers
    if partition not in partitions:
        raise typer.BadParameter(f"{projection} has partitions 0 to {partitions[-1]}.", param_hint="PARTITION")
    found = await reader.find(projection, partition, offset)
    if found is None:
        raise NotFound(
            f"{projection} {partition} {offset} is not in quarantine. "
            "`tally quarantine list --all` lists all records."
        )
    return found


def _decision(one: Quarantined, reason: str | None) -> Drop:
    return Drop(
        topic=one.record.topic,
        partition=one.partition,
        offset=one.offset,
        log_id=one.position.log_id,
        sha256=sha256(one.value()).hexdigest(),
        quarantined_for=one.reason,
        dropped_at=timestamp(time.time_ns() // 1000) or "",
        reason=reason,
    )
