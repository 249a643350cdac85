"""A fold and a view, each described as one flat table, so that they can be compared cell by cell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from libs.tally.events import VoteCast
from libs.tally.figures import Figures
from libs.tally.tallies import PartitionTally
from libs.views.packing import SOURCES, digest, raw, unpack
from libs.views.votes import VoteViews

Table = dict[tuple[Any, ...], Any]

ROW_SIZE = 54
FIELDS = (12, 8, 7, 5, 3, 3, 1, 4, 4, 7)
"""Sizes of a record's fields, as the head of `lua/votes` names them."""


def differing(view: Table, fold: Table) -> list[str]:
    """A line for each cell that is not the same."""
    cells = view.keys() | fold.keys()
    return [
        f"{cell}: {view.get(cell)} is not {fold.get(cell)}" for cell in cells if view.get(cell) != fold.get(cell)
    ]


def described(tally: PartitionTally) -> Table:
    """What a fold says, as a table. Names, ids and pseudonyms appear as the views keep them."""
    table: Table = {
        ("fence",): tally.fence,
        ("stats",): (tally.fenced, tally.duplicates, tally.overruled),
    }
    for name, contest in tally.contests.items():
        totals = {participant: 0 for participant, _ in contest.figures}
        for (participant, source), figures in contest.figures.items():
            if source:
                totals[participant] += figures.count
                table["figures", name, participant, source] = figures
        for participant, total in totals.items():
            overall = contest.figures[participant, ""]
            table["figures", name, participant, ""] = Figures(total, overall.unique, overall.anonymous)
        table["ids", name] = contest.counted_ids, contest.overruled_ids
        table["last", name] = contest.last_offset, contest.last_time_ms
        for voter, standing in contest.voters.items():
            for vote in standing.votes.values():
                cell = "record", name, raw(voter), digest(vote.cast.vote_id)
                table[cell] = _record(vote.cast, vote.offset, int(vote.status))
            for (participant, source, epoch), used in standing.used.items():
                table["used", name, raw(voter), participant, source, epoch] = used.votes, used.limit
    return {cell: value for cell, value in table.items() if value != Figures()}


def _record(cast: VoteCast, offset: int, status: int) -> tuple[Any, ...]:
    left = (-1 if n is None else n for n in (cast.remaining_participant, cast.remaining_contest))
    ((participant, count),) = cast.choices
    what = participant, count, cast.source, status
    return raw(cast.content), cast.accepted_at, offset, *what, *left, cast.next_free_vote_at or 0


async def described_view(views: VoteViews, partition: int, contests: set[str]) -> Table:
    """What the views of one partition hold about `contests`, as the same table."""
    state = await views.state(partition)
    table: Table = {
        ("fence",): state.fence,
        ("stats",): (state.fenced, state.duplicates, state.overruled),
    }
    for contest in contests:
        counts = await views.counts(partition, contest)
        if counts is None or counts.changed < 0:
            continue
        for (participant, source), figures in counts.figures.items():
            table["figures", contest, participant, source] = figures
        table["ids", contest] = counts.counted_ids, counts.overruled_ids
        table["last", contest] = counts.changed, counts.updated_ms
        table.update({cell: value async for cell, value in _ledger(views, partition, contest)})
    return {cell: value for cell, value in table.items() if value != Figures()}


async def _ledger(views: VoteViews, partition: int, contest: str) -> Any:
    base = views._base(partition)
    rows = unpack(await views._valkey.call("FCALL", "votes_counts", 1, base, contest, -2))[3]
    names = {row[0]: name.decode() for name, row in rows if name} | {0: ""}
    flat = await views._valkey.call("HGETALL", f"{base}:g1:spill:{contest}")
    spilled = flat if isinstance(flat, dict) else dict(zip(flat[::2], flat[1::2], strict=True))
    found = 0
    for voter, records, its_spilled, sums in unpack(
        await views._valkey.call("FCALL", "votes_ledger", 1, base, contest)
    ):
        for record in _rows(records):
            yield ("record", contest, voter, record[0]), _row(record, names)
        own = [value for key, value in spilled.items() if key[:-12] == voter]
        assert len(own) == its_spilled, f"{voter!r} has {len(own)} spilled records, not {its_spilled}"
        found += its_spilled
        for record in map(_fields, own):
            yield ("record", contest, voter, record[0]), _row(record, names)
        for key, used, limit in zip(sums[::3], sums[1::3], sums[2::3], strict=True):
            index, source, epoch = key // 2 % 2**24, SOURCES[key % 2], key // 2**25
            yield ("used", contest, voter, names[index], source, epoch), (used, limit)
    assert found == len(spilled), "spilled records of nobody"


def _rows(records: bytes) -> Iterator[tuple[Any, ...]]:
    assert len(records) % ROW_SIZE == 0
    return (_fields(records[at : at + ROW_SIZE]) for at in range(0, len(records), ROW_SIZE))


def _fields(record: bytes) -> tuple[Any, ...]:
    values: list[Any] = []
    at = 0
    for i, size in enumerate(FIELDS):
        piece, at = record[at : at + size], at + size
        values.append(piece if i < 2 else int.from_bytes(piece, "big", signed=i in (7, 8)))
    return tuple(values)


def _row(fields: tuple[Any, ...], names: dict[int, str]) -> tuple[Any, ...]:
    _, content, at, offset, index, count, flags, left_p, left_c, next_at = fields
    return content, at, offset, names[index], count, SOURCES[flags % 2], flags // 2, left_p, left_c, next_at
