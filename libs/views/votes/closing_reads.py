"""Reads the states of a contest's closing in many partitions, by few calls for each server."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from libs.tally.errors import ViewsUnavailable
from libs.views.valkey.function_libraries import pack, unpack
from libs.views.valkey.partition_reads import Group, PartitionReads, completed
from libs.views.votes.reply_types import ClosingState

CLOSING_PARTITIONS = 64
"""Partitions of one call: less than 1 ms of Valkey's time."""
PENDING_PAGE = 500
"""Approximate number of reservations read by one call, of all its partitions."""
BEGIN = b"0"
"""Cursor of the first page of a partition's reservations, and of the one after the last."""

Page = Sequence[Any]


async def read_closings(live: PartitionReads, group: Group, contest: str) -> Mapping[int, ClosingState]:
    """Return the state in each partition of a group. Raises `ViewsUnavailable`.

    A state is that at the first of several short calls; `open` and `pending` cover all of them. From the first
    call on, only configurations at least as new as the one then in force admit reservations. So no pending
    reservation of an older one is missed.
    """
    pages: dict[int, list[Page]] = {partition: [] for partition in group}
    cursors = dict.fromkeys(group, BEGIN)
    while cursors:
        for partition, page in (await read_pages(live, contest, cursors)).items():
            pages[partition].append(page)
        nexts = {partition: its[-1][0] if its else None for partition, its in pages.items()}
        cursors = {partition: cursor or BEGIN for partition, cursor in nexts.items() if cursor != BEGIN}
    return {partition: _state(its) for partition, its in pages.items()}


async def read_pages(live: PartitionReads, contest: str, cursors: Mapping[int, bytes]) -> Mapping[int, Page]:
    """Return the next page of at least one partition; others may follow by the next call."""
    packed = {partition: pack([contest, cursor, PENDING_PAGE]) for partition, cursor in cursors.items()}
    read = partial(live.read, "closing", arguments=packed)
    replies: Mapping[int, Any | ViewsUnavailable] = await read(tuple(cursors))
    found = await completed(replies, len(replies), read)
    return {partition: unpack(page) for partition, page in found.items() if page is not None}


def _state(pages: Sequence[Page]) -> ClosingState:
    _, _, incarnation, _, now, closed, reopened, waiting, folded, *flat = pages[0]
    is_open = all(page[1:3] == [1, incarnation] for page in pages)
    pending = sum(page[3] for page in pages)
    sources = {name.decode(): seq for name, seq in zip(flat[::2], flat[1::2], strict=True)}
    return ClosingState(is_open, pending, now, closed, reopened, waiting, folded, sources)
