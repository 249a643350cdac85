"""Deletes all catalogue records of an environment by ordinary deletion events in its log."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Final, NamedTuple, TypeVar

from libs.catalogue.commands import CommandWriter, WriteRequest
from libs.contracts.catalogue_events import (
    OutcomeKind,
    RecordChanged,
    RecordCreated,
    RecordDeleted,
    RecordsWritten,
    catalogue_codec,
)
from libs.contracts.topics import Topic
from libs.kafka.reader import Extent, LogReader
from libs.tally.errors import TallyError, ViewsUnavailable
from libs.telemetry.progress import Progress
from libs.views.catalogue.catalogue_views import CatalogueViews

T = TypeVar("T")

AT_ONCE: Final = 64
FOLD_DEADLINE_S: Final = 10.0
POLL_S: Final = 0.02


class Stuck(TallyError):
    """Records refer to one another in a way that prevents deleting any of them."""

    code = "in_use"


class RecordName(NamedTuple):
    """Identifies a record; `is_top`: it has no parent."""

    account: str
    resource: str
    key: str
    is_top: bool


class Contents:
    """Records of one environment; the caller opens and closes the connections."""

    def __init__(self, topic: Topic, reader: LogReader, views: CatalogueViews, writer: CommandWriter) -> None:
        self._topic = topic
        self._reader = reader
        self._views = views
        self._writer = writer
        self._read = dict.fromkeys(topic.numbers, 0)
        self._found: dict[RecordName, None] = {}

    async def list_records(self) -> list[RecordName]:
        """Return all records that exist at the log's current end.

        Raises `ViewsUnavailable` while the views lag.
        """
        ends = await self._reader.end_offsets(self._topic.name, self._read)
        ranges = {partition: Extent(self._read[partition], end) for partition, end in ends.items()}
        async with aclosing(self._reader.records(self._topic.name, ranges)) as batches:
            async for _, records in batches:
                events = catalogue_codec.decode_many([record.value for record in records])
                self._found |= dict.fromkeys(_made(events))
        self._read = ends
        await self._folded(ends)
        existing: list[RecordName] = []
        for names in _sliced(list(self._found)):
            found = await asyncio.gather(*(self._views.get(*name[:3]) for name in names))
            existing += [name for name, stored in zip(names, found, strict=True) if stored is not None]
        self._found = dict.fromkeys(existing)
        return existing

    async def delete_all(self, progress: Progress) -> None:
        """Delete until nothing is left, including records created meanwhile; another call resumes.

        Records that others refer to are deleted after those. Raises `Stuck`.
        """
        names = await self.list_records()
        progress.begin("Wiping", len(names))
        while names:
            tops = [name for name in names if name.is_top]
            if not await self._delete(tops) and not await self._remove_references(tops):
                listed = ", ".join(f"{name.resource} {name.key} of {name.account}" for name in tops[:3])
                raise Stuck(f"{len(tops):,} records refer to one another and cannot be deleted: {listed}")
            left = await self.list_records()
            progress.advance(len(names) - len(left))
            names = left

    async def _delete(self, names: Sequence[RecordName]) -> int:
        """Delete the records and return how many were deleted; those that others refer to stay."""
        commands = [
            RecordDeleted(
                account=name.account,
                command_id=WriteRequest.once().command_id,
                at=self._writer.now(),
                resource=name.resource,
                key=name.key,
                contest=_contest(name),
            )
            for name in names
        ]
        return await self._record(commands)

    async def _remove_references(self, names: Sequence[RecordName]) -> int:
        """Remove the references of records in a reference cycle; returns the number of changed records."""
        commands = []
        for name in names:
            stored = await self._views.get(*name[:3])
            if stored is not None:
                change = RecordChanged(
                    account=name.account,
                    command_id=WriteRequest.once().command_id,
                    at=self._writer.now(),
                    resource=name.resource,
                    key=name.key,
                    contest=_contest(name),
                    record=stored.record,
                    expected_version=stored.version,
                )
                commands.append(change)
        return await self._record(commands)

    async def _record(self, commands: Sequence[RecordChanged | RecordDeleted]) -> int:
        done = 0
        for some in _sliced(commands):
            outcomes = await asyncio.gather(*map(self._writer.record, some))
            done += sum(outcome.kind is OutcomeKind.OK for outcome in outcomes)
        return done

    async def _folded(self, ends: dict[int, int]) -> None:
        deadline = asyncio.get_running_loop().time() + FOLD_DEADLINE_S
        for partition, end in ends.items():
            while (position := await self._views.position(partition)) is None or position.offset < end:
                if asyncio.get_running_loop().time() > deadline:
                    raise ViewsUnavailable(
                        "The views are behind the log: is a projector running?", retry_after_s=1
                    )
                await asyncio.sleep(POLL_S)


def _made(events: Iterable[object]) -> Iterator[RecordName]:
    for event in events:
        if isinstance(event, RecordCreated):
            yield RecordName(event.account, event.resource, event.key, event.parent is None)
        elif isinstance(event, RecordsWritten):
            for write in event.writes:
                yield RecordName(event.account, write.resource, write.key, write.parent is None)


def _contest(name: RecordName) -> str | None:
    return name.key if name.resource == "contests" else None


def _sliced(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[at : at + AT_ONCE] for at in range(0, len(items), AT_ONCE))
