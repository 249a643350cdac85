"""Deletes all catalogue records of an environment by ordinary deletion events in its log."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from typing import Any, Final, NamedTuple, TypeVar

from libs.catalogue.commands import CommandWriter, WriteRequest
from libs.catalogue.resource_table import CONTESTS
from libs.concurrency.tasks import becomes_true
from libs.contracts.catalogue_events import (
    CatalogueCommand,
    OutcomeKind,
    RecordChanged,
    RecordCreated,
    RecordDeleted,
    RecordsWritten,
    catalogue_codec,
)
from libs.deployment.deployment import Progress
from libs.deployment.environment_catalogue import Catalogue
from libs.kafka.reader import Extent, LogReader
from libs.tally.errors import TallyError, ViewsUnavailable
from libs.views.catalogue.stored_records import DELETED_CONTESTS

T = TypeVar("T")

AT_ONCE: Final = 64
FOLD_DEADLINE_S: Final = 10.0


class Stuck(TallyError):
    """Records refer to one another in a way that prevents deleting any of them."""

    code = "in_use"


class RecordName(NamedTuple):
    """Identifies a record; `is_top`: it has no parent."""

    account: str
    resource: str
    key: str
    is_top: bool


async def list_records(catalogue: Catalogue, reader: LogReader) -> list[RecordName]:
    """Return all records that exist at the log's current end. Raises `ViewsUnavailable` while the views lag."""
    topic, views, names = catalogue.topic, catalogue.views, dict[RecordName, None]()
    ends = await reader.end_offsets(topic.name, topic.numbers)
    ranges = {partition: Extent(0, end) for partition, end in ends.items()}
    async with aclosing(reader.records(topic.name, ranges)) as batches:
        async for _, records in batches:
            for event in catalogue_codec.decode_many([record.value for record in records]):
                names |= dict.fromkeys(_created(event))

    async def has_folded() -> bool:
        positions = await asyncio.gather(*map(views.position, ends))
        return all(
            position is not None and position.offset >= ends[partition]
            for partition, position in zip(ends, positions, strict=True)
        )

    if not await becomes_true(has_folded, FOLD_DEADLINE_S):
        raise ViewsUnavailable("The views are behind the log: is a projector running?", retry_after_s=1)
    existing: list[RecordName] = []
    for some in _sliced(list(names)):
        stored = await asyncio.gather(*(views.get(*name[:3]) for name in some))
        existing += [name for name, found in zip(some, stored, strict=True) if found is not None]
    return existing


async def delete_all(catalogue: Catalogue, reader: LogReader, writer: CommandWriter, progress: Progress) -> None:
    """Delete until nothing is left, including records created meanwhile; another call resumes.

    Records that others refer to are deleted after those. Raises `Stuck`.
    """
    names = await list_records(catalogue, reader)
    progress.begin("Wiping", len(names))
    while names:
        tops = [name for name in names if name.is_top]
        if not await _delete(writer, tops) and not await _remove_references(catalogue, writer, tops):
            listed = ", ".join(f"{name.resource} {name.key} of {name.account}" for name in tops[:3])
            raise Stuck(f"{len(tops):,} records refer to one another and cannot be deleted: {listed}")
        left = await list_records(catalogue, reader)
        progress.advance(len(names) - len(left))
        names = left


async def _delete(writer: CommandWriter, names: Sequence[RecordName]) -> int:
    """Delete the records and return how many were deleted; those that others refer to stay."""
    return await _record(writer, [RecordDeleted(**_command(writer, name)) for name in names])


async def _remove_references(catalogue: Catalogue, writer: CommandWriter, names: Sequence[RecordName]) -> int:
    """Remove the references of records in a reference cycle; returns the number of changed records."""
    stored = [(name, await catalogue.views.get(*name[:3])) for name in names]
    return await _record(
        writer,
        [
            RecordChanged(**_command(writer, name), record=found.record, expected_version=found.version)
            for name, found in stored
            if found is not None
        ],
    )


async def _record(writer: CommandWriter, commands: Sequence[CatalogueCommand]) -> int:
    """Append the commands, and return how many of them took effect."""
    done = 0
    for some in _sliced(commands):
        outcomes = await asyncio.gather(*map(writer.record, some))
        done += sum(outcome.kind is OutcomeKind.OK for outcome in outcomes)
    return done


def _command(writer: CommandWriter, name: RecordName) -> dict[str, Any]:
    contest = name.key if name.resource == "contests" else None
    command_id, identity = WriteRequest.once().command_id, {"resource": name.resource, "key": name.key}
    return {"account": name.account, "command_id": command_id, "at": writer.now(), "contest": contest, **identity}


def _created(event: object) -> Iterator[RecordName]:
    """Yield the records that an event creates or writes, and the deleted contest that a contest becomes."""
    if isinstance(event, RecordDeleted) and event.resource == CONTESTS.name:
        yield RecordName(event.account, DELETED_CONTESTS, event.key, is_top=True)
    elif isinstance(event, RecordCreated):
        yield RecordName(event.account, event.resource, event.key, event.parent is None)
    elif isinstance(event, RecordsWritten):
        for write in event.writes:
            yield RecordName(event.account, write.resource, write.key, write.parent is None)


def _sliced(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[at : at + AT_ONCE] for at in range(0, len(items), AT_ONCE))
