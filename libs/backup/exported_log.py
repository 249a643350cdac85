"""The log of an export, as certificates are computed from it."""

from itertools import islice
from pathlib import Path
from typing import Final

from libs.backup.manifest import ImportRefused, read_complete, records_of
from libs.certificates.builder import Batches
from libs.contracts.topics import Topic, catalogue_topic

SLICE: Final = 2_000
"""Records read in one go (about 30 ms), before other tasks of the event loop run."""


class ExportedLog:
    """Reads the log from a directory of NDJSON files, which preserve the records' values byte for byte."""

    def __init__(self, directory: Path) -> None:
        """Raises `ImportRefused` unless `directory` holds a complete export."""
        self._directory = directory
        self._manifest = read_complete(directory)

    def topic_from(self, first: int) -> Topic:
        return self._manifest.votes.topic_from(first)

    async def size(self) -> int:
        return sum(part.end for part in self._manifest.parts if part.kind == "votes")

    def catalogue(self, account: str) -> Batches:
        return self._records("catalogue", catalogue_topic("").partition_of(account))

    def votes(self, partition: int) -> Batches:
        return self._records("votes", partition)

    async def _records(self, kind: str, partition: int) -> Batches:
        """Yield the records of one file. Raises `ImportRefused`."""
        part = next(part for part in self._manifest.parts if (part.kind, part.partition) == (kind, partition))
        records = records_of(self._directory, part)
        try:
            while piece := list(islice(records, SLICE)):
                yield piece
        except OSError as error:
            raise ImportRefused(f"{part.file} cannot be read: {error.strerror}.") from None
