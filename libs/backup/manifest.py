"""Manifest of an export, `manifest.json`, written before and after the records, and the check of both."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from libs.contracts.log_records import LogRecord
from libs.contracts.ndjson_codec import from_line
from libs.contracts.topics import Log, Topic, VotesLog, catalogue_topic, legacy_test_namespace, purchases_topic
from libs.deployment.environment_catalogue import Environment
from libs.storage.private_files import sha256_of, write_private
from libs.tally.errors import TallyError

MANIFEST: Final = "manifest.json"
Kind = Literal["purchases", "votes", "catalogue", "test-catalogue"]


class ExportRefused(TallyError):
    """The directory holds other files or cannot be written; this call exported no record."""

    code = "export_refused"


class ImportRefused(TallyError):
    """The export is missing, incomplete or damaged, or the target holds other records."""

    code = "import_refused"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ExportRequest(_Model):
    """Options of an export."""

    secrets: bool = True
    files: bool = True


class ExportedPartition(_Model):
    """One partition: the records in [start, end).

    `records` and `sha256` of its file are None until the export is complete. The file lies beside the manifest.
    """

    kind: Kind
    partition: int = Field(ge=0)
    log_id: str | None
    start: int = Field(0, ge=0)
    end: int = Field(ge=0)
    file: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]*\.ndjson$")]
    records: int | None = Field(None, ge=0)
    sha256: str | None = None


class ExportedObject(_Model):
    """An uploaded file or picture, by its name below its environment's prefix in the object store.

    `sha256` is None until it is written. The file lies beside the manifest.
    """

    of: Environment
    name: str
    size: int = Field(ge=0)
    file: Annotated[str, StringConstraints(pattern=r"^object-[0-9]{8,}$")]
    sha256: str | None = None


class Manifest(_Model):
    """The manifest; `secrets` has the SHA-256 of each secret of the logs, by its name in the object store.

    The votes log began with so many `partitions`; `later` has those of each later topic by its first partition.
    """

    version: Literal[1] = 1
    namespace: str
    partitions: int = Field(ge=1)
    later: dict[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    request: ExportRequest
    began: str
    ended: str | None = None
    complete: bool = False
    parts: list[ExportedPartition]
    secrets: dict[str, str]
    objects: list[ExportedObject]

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        end = self.partitions
        for first, partitions in sorted(self.later.items()):
            if first != end:
                raise ValueError(f"a topic of the votes begins with partition {first}, not {end}")
            end += partitions
        files = [part.file for part in self.parts] + [each.file for each in self.objects]
        for values in (files, [(part.kind, part.partition) for part in self.parts]):
            if len(set(values)) < len(values):
                raise ValueError("two parts have the same file or partition")
        return self

    @property
    def votes(self) -> VotesLog:
        """Return the exported log of the votes."""
        log = VotesLog(self.namespace, self.partitions)
        log.add(Topic(log.name_from(first), partitions, first) for first, partitions in self.later.items())
        return log

    @property
    def records(self) -> int:
        return sum(part.records or 0 for part in self.parts)

    @property
    def records_by_kind(self) -> dict[str, int]:
        found: dict[str, int] = dict.fromkeys((part.kind for part in self.parts), 0)
        for part in self.parts:
            found[part.kind] += part.records or 0
        return found

    def write(self, directory: Path) -> None:
        write_private(directory / MANIFEST, self.model_dump_json(indent=1).encode() + b"\n")


def read_manifest(directory: Path) -> Manifest | None:
    """Return the manifest, or None if there is none. Raises ValueError if it has another version."""
    try:
        return Manifest.model_validate_json((directory / MANIFEST).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = "/".join(map(str, first["loc"]))
        raise ValueError(f"{directory / MANIFEST}: {where or 'manifest'}: {first['msg']}") from None


def read_complete(directory: Path) -> Manifest:
    """Read the manifest of a complete export. Raises `ImportRefused` for any other."""
    try:
        manifest = read_manifest(directory)
    except ValueError as error:
        raise ImportRefused(str(error)) from None
    if manifest is None:
        raise ImportRefused(f"{directory} is no export: it has no {MANIFEST}.")
    if not manifest.complete:
        raise ImportRefused(f"The export in {directory} was interrupted: run `tally export` on it again first.")
    return manifest


def open_export(directory: Path) -> Manifest:
    """Read the manifest, and check all SHA-256. Raises `ImportRefused`."""
    manifest = read_complete(directory)
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


def logs_by_kind(namespace: str, votes: VotesLog) -> dict[str, Log]:
    """Return the logs in the order in which their end offsets are read, so that exported records are consistent.

    A purchase marked as cast needs its votes, and a vote needs the catalogue that it was checked against. (A vote
    without its purchase does no harm: the purchase, recorded again, finds the vote by its id.)
    """
    return {
        "purchases": purchases_topic(namespace, votes.begun_with),
        "votes": votes,
        "catalogue": catalogue_topic(namespace),
        "test-catalogue": catalogue_topic(legacy_test_namespace(namespace)),
    }
