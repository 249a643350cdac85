"""Progress of the catalogue's view compared with its log."""

import asyncio
from collections.abc import Collection, Mapping

from libs.contracts.topics import Topic
from libs.kafka.reader import LogReader
from libs.views.catalogue.catalogue_views import CatalogueViews


class CatalogueProgress:
    """Reads end offsets of the catalogue's log and positions of its view.

    Its methods raise `LogUnavailable` and `ViewsUnavailable`.
    """

    def __init__(self, reader: LogReader, topic: Topic, views: CatalogueViews) -> None:
        self._reader = reader
        self._topic = topic
        self._views = views

    async def ends(self, partitions: Collection[int] | None = None) -> Mapping[int, int]:
        """Return the log's end offsets, by default of all partitions."""
        some = self._topic.numbers if partitions is None else partitions
        return await self._reader.end_offsets(self._topic.name, some)

    async def has(self, ends: Mapping[int, int]) -> bool:
        """Return whether the view has folded each partition up to its offset in `ends`."""
        positions = await asyncio.gather(*map(self._views.position, ends))
        return all(at is not None and at.offset >= end for at, end in zip(positions, ends.values(), strict=True))

    async def has_folded_account(self, account: str) -> bool:
        """Return whether the view has folded all that the log now has of an account's partition."""
        return await self.has(await self.ends([self._topic.partition_of(account)]))
