"""Imports an export into an empty namespace; every record keeps its offset."""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from libs.backup import objects, secrets
from libs.backup.integrity import open_export, records_of
from libs.backup.manifest import ImportRefused, Manifest, logs_by_kind
from libs.backup.raw_append import open_appender
from libs.backup.target_check import check_views, find_present
from libs.contracts.topics import Log, Topic
from libs.deployment.deployment import Deployment
from libs.kafka.topics import create_unbegun, find_topics, take_append_times
from libs.views.valkey.function_loading import load_functions


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
    present = await find_present(deployment, topics, directory, manifest)
    if sum(present.values()) < manifest.records:
        await load_functions(deployment.valkey)
        await check_views(deployment, topics, manifest)
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
