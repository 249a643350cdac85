"""Checks an export's completeness and checksums."""

from collections.abc import Iterator
from pathlib import Path

from libs.backup.manifest import (
    MANIFEST,
    ExportedObject,
    ExportedPartition,
    ImportRefused,
    Manifest,
    read_manifest,
)
from libs.contracts.log_records import LogRecord
from libs.contracts.ndjson_codec import from_line
from libs.storage.private_files import sha256_of


def open_export(directory: Path) -> Manifest:
    """Read the manifest.

    Raises `ImportRefused` unless the export is complete and all SHA-256 match.
    """
    try:
        manifest = read_manifest(directory)
    except ValueError as error:
        raise ImportRefused(str(error)) from None
    if manifest is None:
        raise ImportRefused(f"{directory} is no export: it has no {MANIFEST}.")
    if not manifest.complete:
        raise ImportRefused(f"The export in {directory} was interrupted: run `tally export` on it again first.")
    files: list[ExportedPartition | ExportedObject] = [*manifest.parts, *manifest.objects]
    for part in files:
        try:
            found = sha256_of(directory / part.file)
        except OSError as error:
            raise ImportRefused(f"{directory / part.file} cannot be read: {error.strerror}.") from None
        if found != part.sha256:
            raise ImportRefused(f"{directory / part.file} is damaged: its SHA-256 is not that of the manifest.")
    return manifest


def records_of(directory: Path, part: ExportedPartition) -> Iterator[LogRecord]:
    """Yield the records of a whole export's file. Raises `ImportRefused` for a line that is none of them."""
    with (directory / part.file).open("rb") as lines:
        for offset, line in enumerate(lines, part.start):
            try:
                record = from_line(line)
                is_next = record.offset == offset and isinstance(record.timestamp_ms, int)
            except (ValueError, KeyError, TypeError, AttributeError):
                is_next = False
            if not is_next:
                raise ImportRefused(f"{directory / part.file} has no record of offset {offset} in its place.")
            yield record
