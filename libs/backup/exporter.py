"""Exports the logs to a directory, up to the end offsets at the start of the export, with secrets and files."""

import fcntl
import time
from collections.abc import Iterator, Sequence
from contextlib import aclosing, closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

from libs.backup import objects, secrets
from libs.backup.manifest import (
    ExportedPartition,
    ExportRefused,
    ExportRequest,
    Manifest,
    logs_by_kind,
    read_manifest,
)
from libs.contracts.log_records import LogRecord
from libs.contracts.ndjson_codec import from_line, to_line
from libs.contracts.topics import Log
from libs.deployment.deployment import Deployment, Progress
from libs.kafka.reader import Extent, LogReader
from libs.storage.private_files import flush, open_for_writing, own_directory
from libs.tally.time_conversion import timestamp

OBJECTS_A_MANIFEST: Final = 1_000
"""Objects after which the manifest lists them as written, for a call that resumes."""


async def export_logs(deployment: Deployment, directory: Path, request: ExportRequest) -> Manifest:
    """Write all records, or the rest of them after an interrupted call.

    Raises `ExportRefused` if the directory holds other files or the log is no longer the one that the export began
    with, `LogChanged` if the log is invalid, `LogUnavailable` and `StorageUnavailable` if a server is unavailable.
    """
    topics, reader = logs_by_kind(deployment.namespace, deployment.votes), deployment.reader
    with export_directory(directory):
        manifest = _begun(directory, deployment, request)
        if manifest is None:
            manifest = await _plan(deployment, topics, request)
            manifest.write(directory)
        elif manifest.complete:
            return manifest
        else:
            await _check_same_logs(manifest, topics, reader)
        if request.secrets and not (directory / secrets.FILE).exists():
            await secrets.write_secrets(deployment.store, directory, manifest.secrets)
        deployment.progress.begin("Exporting", sum(part.end - part.start for part in manifest.parts))
        for part in manifest.parts:
            await _write(part, topics[part.kind], reader, directory, deployment.progress)
        await _write_objects(manifest, deployment, directory)
        manifest.ended, manifest.complete = _now(), True
        manifest.write(directory)
    return manifest


@contextmanager
def export_directory(directory: Path) -> Iterator[None]:
    """Make the directory private, and lock it against a second export.

    Raises `ExportRefused`, also for errors of the file system in the block.
    """
    try:
        with own_directory(directory) as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
    except BlockingIOError:
        raise ExportRefused(f"Another export is being written to {directory}.") from None
    except OSError as error:
        raise ExportRefused(f"{error.filename or directory}: {error.strerror}") from error


def _begun(directory: Path, deployment: Deployment, request: ExportRequest) -> Manifest | None:
    try:
        found = read_manifest(directory)
    except ValueError as error:
        raise ExportRefused(str(error)) from None
    if found is None:
        if any(each.name != "manifest.json.part" for each in directory.iterdir()):
            raise ExportRefused(f"{directory} is not empty, and holds no export to resume.")
        return None
    if (found.namespace, found.partitions, found.request) != (
        deployment.namespace,
        deployment.partitions,
        request,
    ):
        raise ExportRefused(
            f"{directory} holds an export of {found.namespace} with other options: give the same ones to resume "
            "it, or another directory."
        )
    return found


async def _plan(deployment: Deployment, topics: dict[str, Log], request: ExportRequest) -> Manifest:
    parts, reader = [], deployment.reader
    for kind, topic in topics.items():
        ids = await reader.log_ids(topic.name, topic.numbers)
        for partition, end in sorted((await reader.end_offsets(topic.name, topic.numbers)).items()):
            file = f"{kind}-{partition:05d}.ndjson"
            parts.append(
                ExportedPartition(kind=kind, partition=partition, log_id=ids.get(partition), end=end, file=file)
            )
    names = await _names_of_secrets(topics, reader, parts)
    return Manifest(
        namespace=deployment.namespace,
        partitions=deployment.partitions,
        later={topic.first: topic.partitions for topic in deployment.votes.later},
        request=request,
        began=_now(),
        parts=parts,
        secrets=await secrets.hashes_of(deployment.store, names),
        objects=await objects.list_objects(deployment.store, deployment.namespace) if request.files else [],
    )


async def _names_of_secrets(
    topics: dict[str, Log], reader: LogReader, parts: Sequence[ExportedPartition]
) -> set[str]:
    names = set()
    for part in parts:
        if part.kind in secrets.CATALOGUES:
            extents = {part.partition: Extent(part.start, part.end)}
            async with aclosing(reader.records(topics[part.kind].name, extents)) as batches:
                async for _, records in batches:
                    names |= secrets.names_of(records)
    return names


async def _check_same_logs(manifest: Manifest, topics: dict[str, Log], reader: LogReader) -> None:
    for kind, topic in topics.items():
        ids = await reader.log_ids(topic.name, topic.numbers)
        if any(ids.get(part.partition) != part.log_id for part in manifest.parts if part.kind == kind):
            raise ExportRefused(f"{topic.name} is not the log that this export began with: it was created again.")


async def _write(
    part: ExportedPartition, topic: Log, reader: LogReader, directory: Path, progress: Progress
) -> None:
    with closing(NdjsonFile(directory, part)) as file:
        progress.advance(file.next - part.start)
        ranges = {part.partition: Extent(file.next, part.end)}
        async with aclosing(reader.records(topic.name, ranges)) as batches:
            async for _, records in batches:
                file.write(records)
                progress.advance(len(records))
        part.sha256, part.records = file.finish(), file.records


class NdjsonFile:
    """File of one partition; `next` is the offset after the file's last record.

    Opening it removes an incomplete last line.
    """

    def __init__(self, directory: Path, part: ExportedPartition) -> None:
        self.next = part.start
        self.records = 0
        self._part = part
        self._hash = sha256()
        self._file = open_for_writing(directory / part.file)
        whole = 0
        for line in self._file:
            if not line.endswith(b"\n"):
                break
            self.next = from_line(line).offset + 1
            self.records += 1
            self._hash.update(line)
            whole += len(line)
        self._file.truncate(whole)
        self._file.seek(whole)

    def write(self, records: Sequence[LogRecord]) -> None:
        lines = b"".join(to_line(self._part.kind, self._part.partition, record) for record in records)
        self._file.write(lines)
        self._hash.update(lines)
        self.records += len(records)

    def finish(self) -> str:
        """Flush the file to the disk and return its SHA-256."""
        flush(self._file)
        return self._hash.hexdigest()

    def close(self) -> None:
        self._file.close()


async def _write_objects(manifest: Manifest, deployment: Deployment, directory: Path) -> None:
    """Write the objects that an interrupted call has not; one that was deleted meanwhile is left out."""
    missing = [each for each in manifest.objects if each.sha256 is None]
    deployment.progress.begin("Exporting files", len(missing))
    for number, exported in enumerate(missing, 1):
        if not await objects.write_object(deployment.store, deployment.namespace, directory, exported):
            manifest.objects.remove(exported)
            (directory / exported.file).unlink()
        if number % OBJECTS_A_MANIFEST == 0:
            manifest.write(directory)
        deployment.progress.advance(1)


def _now() -> str:
    text = timestamp(time.time_ns() // 1000)
    assert text is not None
    return text
