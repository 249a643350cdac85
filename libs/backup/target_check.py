"""Checks that the target is empty, or holds an interrupted import of the same export."""

from contextlib import aclosing
from itertools import islice
from pathlib import Path
from typing import Any, Final

from libs.backup.integrity import records_of
from libs.backup.manifest import ExportedPartition, ImportRefused, Manifest
from libs.contracts.topics import Log
from libs.deployment.deployment import Deployment
from libs.deployment.environment_catalogue import Environment
from libs.kafka.reader import Extent
from libs.kafka.topics import find_topics

ELSEWHERE: Final = "Import into another namespace (--namespace)."


async def find_present(
    deployment: Deployment, topics: dict[str, Log], directory: Path, manifest: Manifest
) -> dict[str, int]:
    """Count the records of each file that their log already has.

    Raises `ImportRefused` if a log has other records, or is incomplete and not created by an import.
    """
    if manifest.partitions != deployment.partitions:
        raise ImportRefused(
            f"The export has {manifest.partitions} partitions of votes, the target is set to "
            f"{deployment.partitions}: set TALLY_PARTITIONS={manifest.partitions}."
        )
    listed = {(part.kind, part.partition) for part in manifest.parts}
    if listed != {(kind, number) for kind, log in topics.items() for number in log.numbers}:
        raise ImportRefused("The export has other partitions than its manifest's topics.")
    if {topic.first: topic.partitions for topic in deployment.votes.later} != manifest.later:
        raise ImportRefused(f"{deployment.votes.name} has grown otherwise than the exported log. {ELSEWHERE}")
    all_topics = [topic for log in topics.values() for topic in log.topics]
    found = await find_topics(deployment.kafka_settings, all_topics)
    present: dict[str, int] = {}
    for part in manifest.parts:
        log = topics[part.kind]
        topic = log.topic_at(part.partition)
        present[part.file] = 0
        if topic.name not in found:
            continue
        if found[topic.name].partitions != topic.partitions:
            raise ImportRefused(f"{topic.name} exists, with another number of partitions. {ELSEWHERE}")
        extents = await deployment.reader.extents(log.name, [part.partition])
        await _compare(deployment, log, directory, part, extents[part.partition])
        present[part.file] = extents[part.partition].end
        if present[part.file] < part.end and not found[topic.name].takes_given_times:
            raise ImportRefused(f"{topic.name} exists, and was not created by an import. {ELSEWHERE}")
    return present


async def _compare(
    deployment: Deployment, topic: Log, directory: Path, part: ExportedPartition, extent: Extent
) -> None:
    name = f"{topic.name}/{part.partition}"
    if extent.beginning > 0 or extent.end > part.end:
        raise ImportRefused(f"{name} has records that are not in the export. {ELSEWHERE}")
    exported = records_of(directory, part)
    async with aclosing(deployment.reader.records(topic.name, {part.partition: extent})) as batches:
        async for _, records in batches:
            for record, wanted in zip(records, islice(exported, len(records)), strict=True):
                if record != wanted:
                    raise ImportRefused(f"{name} has another record at offset {record.offset}. {ELSEWHERE}")
            deployment.progress.advance(len(records))


async def check_views(deployment: Deployment, topics: dict[str, Log], manifest: Manifest) -> None:
    """Raise `ImportRefused` if a view has folded records that are not in the export: it would skip imported ones.

    A view that is behind, as after the loss of Kafka alone, continues from its position.
    """
    views: dict[str, Any] = {
        "votes": deployment.vote_views,
        "purchases": deployment.purchase_views,
        "catalogue": deployment.catalogue.views,
        "test-catalogue": deployment.catalogue_of(Environment.TEST).views,
    }
    for part in manifest.parts:
        position = await views[part.kind].position(part.partition)
        if position is not None and (position.log_id != part.log_id or position.offset > part.end):
            raise ImportRefused(
                f"Valkey holds a view of {topics[part.kind].name}/{part.partition} that was folded from another "
                f"log, or further than the export goes. {ELSEWHERE} Or empty that Valkey first."
            )
