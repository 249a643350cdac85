"""`tally topics retire`: moves the records of a votes topic to the object store, and drops the topic.

The order of the steps lets each be interrupted and repeated: the mark in Kafka, after which no process appends to
the topic; the copy; its verification; the index, after which all read the copy; the deletion.
"""

from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Annotated

import typer

from libs.audit.log_fold import without_gc
from libs.certificates.builder import Sealing
from libs.contracts.certificates import Certificate, differences
from libs.contracts.dataclass_json import HIDDEN
from libs.contracts.topics import Topic
from libs.deployment.deployment import Deployment
from libs.deployment.votes_archive import Index, write_index, write_segments
from libs.deployment.votes_topics import mark_retired
from libs.kafka.reader import Extent, LogReader, check_contiguous
from libs.kafka.topics import delete_topic
from libs.tally.errors import NotFound, TallyError
from services.cli.command_decorator import Execute, command
from services.cli.commands.certificate.log_source import ServedLog
from services.cli.commands.topics.obstacles import Obstacle, TopicContest, examine
from services.cli.operator_actions import record_action
from services.cli.render import Block, Rows, plural


class ArchiveDiffers(TallyError):
    """The copy of a topic gives another certificate than the sealed one."""

    code = "archive_differs"


@dataclass(frozen=True, slots=True)
class Retirement:
    """A topic, its contests, and what prevents its retirement; `executed`: its records are only in the archive."""

    topic: str
    partitions: int
    records: int
    contests: Sequence[TopicContest]
    obstacles: Sequence[Obstacle]
    executed: bool
    was_retired: bool = field(default=False, metadata=HIDDEN)


def _text(result: Retirement) -> Iterator[Block]:
    size = f"{plural(result.partitions, 'partition')}, {result.records:,} records"
    yield f"Topic {result.topic}: {size}, {plural(len(result.contests), 'contest')}"
    yield Rows(
        [{"contest": each.contest_key, "title": each.title, "state": str(each.state)} for each in result.contests]
    )
    for each in result.obstacles:
        yield f"{each.problem}\n  remedy: {each.remedy}"
    if result.was_retired:
        yield "It is retired already."
    elif result.executed:
        yield "Retired: its records are in the object store, and Kafka has it no longer."
    elif result.obstacles:
        yield "It cannot be retired yet."
    else:
        yield "Run again with --execute to copy its records to the object store and to drop it from Kafka."


@command(text=_text, is_fine=lambda result: not result.obstacles)
async def retire(
    deployment: Deployment,
    topic: Annotated[
        str | None, typer.Argument(help="Name of the topic; default: the oldest one.", show_default=False)
    ] = None,
    execute: Execute = False,
) -> Retirement:
    """Drop a votes topic whose contests are all sealed, after its records were copied to the object store.

    Without --execute lists its contests, and what prevents the retirement, with the way out of each. All
    certificates are verified against the copy before the topic is dropped. Counts, results, receipts and proofs
    stay; replays, `tally verify` and exports read the copy. Its contests cannot be unsealed any more. After an
    interruption the same command continues.
    """
    await deployment.check()
    chosen = await _choose(deployment, topic)
    is_present = chosen.name in await deployment.reader.topics()
    found = await examine(deployment, chosen)
    ends = await deployment.reader.end_offsets(deployment.votes.name, chosen.numbers)
    place = chosen.name, chosen.partitions, sum(ends.values()), found.contests
    if not is_present:
        return Retirement(*place, [], executed=True, was_retired=True)
    if found.obstacles or not execute:
        return Retirement(*place, found.obstacles, executed=False)
    await record_action(deployment, "votes topic retired", topic=chosen.name)
    deployment.progress.note("Waiting until all services have read that the topic is retired.")
    await mark_retired(deployment.kafka_settings, deployment.votes, chosen)
    found = await examine(deployment, chosen)
    if found.obstacles:
        return Retirement(*place, found.obstacles, executed=False)
    index = await archive(deployment, chosen, found.certificates)
    await delete_topic(deployment.kafka_settings, chosen.name)
    return Retirement(chosen.name, chosen.partitions, index.records, found.contests, [], executed=True)


async def _choose(deployment: Deployment, name: str | None) -> Topic:
    """Return the topic of this name; by default the oldest one that Kafka has. Raises `NotFound`."""
    present = await deployment.reader.topics()
    for each in deployment.votes.topics:
        if each.name == name or (name is None and each.name in present):
            return each
    raise NotFound(f"The votes log has no topic {name}; `tally topics check` lists its topics.")


async def archive(deployment: Deployment, topic: Topic, certificates: Sequence[Certificate]) -> Index:
    """Copy the topic, verify the copy, and complete it, unless an earlier call did.

    A topic of this name that a client made Kafka create again is not copied. Raises `ArchiveDiffers`, and the
    errors of both places.
    """
    log, complete = deployment.votes, await deployment.archive.index(topic)
    if complete is not None:
        return complete
    async with LogReader(deployment.kafka_settings, place=log.place) as kafka:
        while True:
            ends = await kafka.end_offsets(log.name, topic.numbers)
            deployment.progress.begin("Copying", sum(ends.values()))
            index = await write_segments(deployment.store, kafka, log, topic, deployment.progress.advance)
            deployment.archive.use(index)
            await _verify(deployment, topic, index, certificates)
            if await kafka.end_offsets(log.name, topic.numbers) == index.ends:
                break
    await write_index(deployment.store, index)
    return index


async def _verify(deployment: Deployment, topic: Topic, index: Index, certificates: Sequence[Certificate]) -> None:
    """Read the whole copy, and compute the certificates from it."""
    progress, log = deployment.progress, ServedLog(deployment)
    progress.begin("Verifying the copy", index.records)
    for partition, end in index.ends.items():
        offset = 0
        async with aclosing(deployment.archive.records(partition, Extent(0, end))) as pieces:
            async for records in pieces:
                check_contiguous(f"{topic.name}/{partition}", records, offset)
                offset += len(records)
                progress.advance(len(records))
    for given in certificates:
        with without_gc():
            sealing = await Sealing.open(log, given.decision.account, given.contest_key, given.seq)
            found = differences(given, await sealing.certify())
        if found:
            raise ArchiveDiffers(
                f"The certificate of contest {given.contest_key} does not match the log: {found[0]}. "
                "`tally certificate verify` lists all differences"
            )
