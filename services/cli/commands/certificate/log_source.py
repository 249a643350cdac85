"""Log sources from which certificates are computed: the servers, or files written by `tally export`."""

from contextlib import aclosing
from itertools import islice
from pathlib import Path

from libs.audit.log_fold import SLICE, slices
from libs.backup.manifest import Manifest, read_manifest
from libs.certificates.builder import Batches
from libs.contracts.ndjson_codec import from_line
from libs.contracts.topics import Log, Topic, catalogue_topic
from libs.deployment.deployment import Deployment
from libs.tally.errors import TallyError


class ServedLog:
    """Reads the log from the servers, each partition up to its end offset at the time of the call."""

    def __init__(self, deployment: Deployment) -> None:
        self._reader = deployment.reader
        self._votes = deployment.votes
        self._catalogue = deployment.catalogue.topic

    def topic_from(self, first: int) -> Topic:
        return self._votes.topic_from(first)

    async def size(self) -> int:
        return sum((await self._reader.end_offsets(self._votes.name, self._votes.numbers)).values())

    def catalogue(self, account: str) -> Batches:
        return self._records(self._catalogue, self._catalogue.partition_of(account))

    def votes(self, partition: int) -> Batches:
        return self._records(self._votes, partition)

    async def _records(self, topic: Log, partition: int) -> Batches:
        ends = await self._reader.end_offsets(topic.name, [partition])
        async with aclosing(slices(self._reader, topic, partition, 0, ends[partition])) as pieces:
            async for records in pieces:
                yield records


class ExportedLog:
    """Reads the log from a directory of NDJSON files, which preserve the records' values byte for byte."""

    def __init__(self, directory: Path) -> None:
        """Raises ValueError unless `directory` holds a complete export."""
        manifest = read_manifest(directory)
        if manifest is None:
            raise ValueError(f"{directory} holds no export")
        if not manifest.complete:
            raise ValueError(f"{directory} holds only part of the log: run `tally export` on it again")
        self._directory = directory
        self._manifest: Manifest = manifest

    def topic_from(self, first: int) -> Topic:
        return self._manifest.votes.topic_from(first)

    async def size(self) -> int:
        return sum(part.end for part in self._manifest.parts if part.kind == "votes")

    def catalogue(self, account: str) -> Batches:
        return self._records("catalogue", catalogue_topic("").partition_of(account))

    def votes(self, partition: int) -> Batches:
        return self._records("votes", partition)

    async def _records(self, kind: str, partition: int) -> Batches:
        """Yield the records of one file. Raises `BrokenExport`."""
        part = next(part for part in self._manifest.parts if (part.kind, part.partition) == (kind, partition))
        try:
            with (self._directory / part.file).open("rb") as lines:
                while records := [from_line(line) for line in islice(lines, SLICE)]:
                    yield records
        except (ValueError, KeyError, OSError) as error:
            raise BrokenExport(f"{part.file} was changed after `tally export` wrote it: {error}") from None


class BrokenExport(TallyError):
    """A file of an export is missing or holds an invalid line."""
