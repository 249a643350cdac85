"""Imports an export into an empty namespace; every record keeps its offset.

The target is checked first: it must be empty, or hold an interrupted import of the same export.
"""

from contextlib import aclosing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from libs.backup import objects, secrets
from libs.backup.manifest import ExportedPartition, ImportRefused, Manifest, logs_by_kind, open_export, records_of
from libs.backup.raw_append import open_appender
from libs.contracts.topics import Log, Topic
from libs.deployment.deployment import Deployment
from libs.kafka.reader import Extent
from libs.kafka.topics import create_unbegun, find_topics, take_append_times
from libs.views.valkey.function_loading import load_functions

ELSEWHERE: Final = "Import into another namespace (--namespace)."


@dataclass(frozen=True, slots=True)
class Imported:
    """Result of an import or check: `present` records, and secrets and files of these numbers, existed before."""

    manifest: Manifest
    present: int
    secrets_present: int
    files_present: int


async def import_logs(deployment: Deployment, directory: Path, execute: bool) -> Imported:
    """Check everything and, with `execute`, import the missing records; another call resumes.

    Raises `ImportRefused` before any change, except when another process appends to the logs meanwhile;
    `LogUnavailable`, `ViewsUnavailable` and `StorageUnavailable` if a server is unavailable.
    """
    manifest = open_export(directory)
    await deployment.find_topics()
    deployment.votes.add(
        Topic(deployment.votes.name_from(first), partitions, first) for first, partitions in manifest.later.items()
    )
    topics, store = logs_by_kind(deployment.namespace, deployment.votes), deployment.store
    of_catalogue: set[str] = set()
    for part in manifest.parts:
        if part.kind in secrets.CATALOGUES:
            of_catalogue |= secrets.names_of(records_of(directory, part))
    secrets.check_names(manifest.secrets, of_catalogue)
    objects.check_names(manifest.objects)
    missing = await secrets.missing_secrets(store, manifest.secrets)
    exported = secrets.read_secrets(directory, manifest.secrets) if manifest.request.secrets else {}
    if missing and not exported:
        raise ImportRefused(
            f"The export has no secrets, and the object store lacks {len(missing)} of them ({missing[0]}, ...): "
            "copy them there first; without them votes cannot be attributed to voters."
        )
    deployment.progress.begin("Importing" if execute else "Checking", manifest.records)
    present = await _find_present(deployment, topics, directory, manifest)
    if sum(present.values()) < manifest.records:
        await load_functions(deployment.valkey)
        await _check_views(deployment, topics, manifest)
    files = await objects.missing_objects(store, deployment.namespace, manifest.objects)
    if execute:
        await secrets.put_secrets(store, exported)
        for each in files:
            await objects.put_object(store, deployment.namespace, directory, each)
        await _append(deployment, topics, directory, manifest, present)
    return Imported(
        manifest,
        present=sum(present.values()),
        secrets_present=len(manifest.secrets) - len(missing),
        files_present=len(manifest.objects) - len(files),
    )


async def _append(
    deployment: Deployment, topics: dict[str, Log], directory: Path, manifest: Manifest, present: dict[str, int]
) -> None:
    """Append the missing records; until all are present the topics' settings make services refuse to start."""
    settings, all_topics = deployment.kafka_settings, [topic for log in topics.values() for topic in log.topics]
    await create_unbegun(settings, all_topics)
    async with open_appender(settings) as appender:
        for part in manifest.parts:
            left = islice(records_of(directory, part), present[part.file], None)
            await appender.append(topics[part.kind], part.partition, left, deployment.progress.advance)
    for part in manifest.parts:
        ends = await deployment.reader.end_offsets(topics[part.kind].name, [part.partition])
        if ends[part.partition] != part.end:
            raise ImportRefused(f"Another process appends to {topics[part.kind].name}: run the import again.")
    found = await find_topics(settings, all_topics)
    await take_append_times(settings, [topic for topic in all_topics if found[topic.name].takes_given_times])
    await deployment.check()


async def _find_present(
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


async def _check_views(deployment: Deployment, topics: dict[str, Log], manifest: Manifest) -> None:
    """Raise `ImportRefused` if a view has folded records that are not in the export: it would skip imported ones.

    A view that is behind, as after the loss of Kafka alone, continues from its position.
    """
    views: dict[str, Any] = {
        "votes": deployment.vote_views,
        "purchases": deployment.purchase_views,
        "catalogue": deployment.catalogue.views,
        "test-catalogue": deployment.test_catalogue.views,
    }
    for part in manifest.parts:
        position = await views[part.kind].position(part.partition)
        if position is not None and (position.log_id != part.log_id or position.offset > part.end):
            raise ImportRefused(
                f"Valkey holds a view of {topics[part.kind].name}/{part.partition} that was folded from another "
                f"log, or further than the export goes. {ELSEWHERE} Or empty that Valkey first."
            )
