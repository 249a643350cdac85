"""Reports of external sources: no call's cost grows with a source's number of ids."""

import pytest

from libs.tally.counts import VoteSums
from libs.tally.events import ContestClosed, ContestReopened, Event
from libs.views.valkey.function_libraries import unpack
from libs.views.votes.counts_replies import source_row
from libs.views.votes.reply_types import ContestCounts, SourceCounts, SourceSize
from tests.libs.views.partition import Partition
from tests.libs.views.recorded_replies import CountCalls
from tests.support.builders import a_cast, a_report

IDS = [f"id {number}" for number in range(300)]


def a_full_report(count: int = 5) -> Event:
    return a_report(f"all {count}", *((mapped_id, count, 1, 0) for mapped_id in IDS))


async def longest_value(partition: Partition) -> int:
    """Bytes in the largest field of the contest's hashes, which a call reads and writes as a whole."""
    views, longest = partition.views, 0
    for key in await views._valkey.call("KEYS", f"{views._base(0)}:g1:*:contest"):
        if await views._valkey.call("TYPE", key) == b"hash":
            longest = max(longest, *map(len, await views._valkey.call("HVALS", key)))
    return longest


async def sms(partition: Partition, known: ContestCounts | None = None) -> SourceCounts:
    counts = await partition.views.counts(0, "contest", known)
    assert counts is not None
    return counts.sources["sms"]


async def test_neither_reports_nor_marks_read_and_write_a_source_as_a_whole(partition: Partition) -> None:
    await partition.fold(a_full_report())
    await partition.fold(ContestClosed("contest", 1, "sms"), ContestReopened("contest", 1))
    assert await longest_value(partition) < 60
    views = partition.views
    key = f"{views._base(0)}:g1:changes:contest"
    assert await views._valkey.call("ZCOUNT", key, 301, "+inf") == 0
    await partition.fold(a_report("two", ("id 7", 6, 2, 0), ("new", 1, 1, 0)))
    assert await views._valkey.call("ZRANGEBYSCORE", key, 301, "+inf") == [b"sms\0id 7", b"sms\0new"]


async def test_figures_are_read_in_parts_with_what_changes_meanwhile(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("libs.views.votes.vote_reads.CHANGES_PAGE", 100)
    await partition.fold(a_full_report())
    calls = CountCalls(partition.views, monkeypatch)

    async def report() -> None:
        calls.between = None
        counts = ("id 0", 7, 1, 0), ("id 299", 8, 1, 0), ("id 1", 2, 1, 0)
        await partition.fold(a_report("meanwhile", *counts), a_report("release", allow_decrease=True))

    calls.between = report
    counts = await partition.views.counts(0, "contest")
    assert counts is not None
    assert counts.position.offset == partition.end
    assert calls.figures == [100, 100, 100, 3]
    expected = {mapped_id: VoteSums(5, 1, 0) for mapped_id in IDS}
    expected |= {"id 0": VoteSums(7, 1, 0), "id 299": VoteSums(8, 1, 0), "id 1": VoteSums(2, 1, 0)}
    assert (counts.sources["sms"].figures, counts.sources["sms"].held) == (expected, {})


async def test_figures_that_did_not_change_are_not_read_again(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    await partition.fold(a_full_report(), a_report("less", ("id 1", 2, 1, 0)))
    known = await partition.views.counts(0, "contest")
    assert known is not None
    calls = CountCalls(partition.views, monkeypatch)
    await partition.fold(a_cast(incarnation=(await partition.views.state(0)).incarnation))
    await partition.fold(ContestClosed("contest", 1, "sms"))
    again = await partition.views.counts(0, "contest", known)
    assert again is not None
    assert calls.figures == [0]
    assert again.figures["a", "c-free"].count == 1
    assert again.sources["sms"] == SourceCounts(
        1, known.sources["sms"].updated_ms, known.sources["sms"].figures, {"id 1": VoteSums(2, 1, 0)}
    )
    await partition.fold(ContestReopened("contest", 1), a_report("release", allow_decrease=True))
    released = await sms(partition, again)
    assert (released.closed, released.held, released.figures["id 1"]) == (0, {}, VoteSums(2, 1, 0))
    await partition.views._valkey.call("DEL", f"{partition.views._base(0)}:g1:changes:contest")
    assert (await sms(partition, known)).figures == {}, "a view that holds less is read afresh"


async def test_a_source_knows_how_much_of_it_is_held(partition: Partition) -> None:
    """So a report that permits decreases releases only where something is held, and then all of it at once."""

    async def row() -> tuple[int, int, int]:
        key = f"{partition.views._base(0)}:g1:sources:contest"
        stored = source_row(unpack(await partition.views._valkey.call("HGET", key, "sms")))
        return stored.ids, stored.held, stored.releases

    await partition.fold(a_report("first", ("a", 5, 0, 0), ("b", 5, 0, 0), ("c", 5, 0, 0)))
    await partition.fold(a_report("less", ("a", 1, 0, 0), ("b", 1, 0, 0)), a_report("again", ("a", 2, 0, 0)))
    assert await row() == (3, 2, 0)
    await partition.fold(a_report("more", ("a", 6, 0, 0)))
    assert await row() == (3, 1, 0)
    await partition.fold(a_report("release", ("c", 1, 0, 0), allow_decrease=True))
    assert await row() == (3, 0, 1)
    await partition.fold(a_report("nothing to release", allow_decrease=True))
    assert await row() == (3, 0, 1)
    assert (await sms(partition)).figures["b"] == VoteSums(1, 0, 0)
    await partition.fold(a_report("delta", ("b", 1, 0, 0), mode="delta"))
    assert (await sms(partition)).figures["b"] == VoteSums(2, 0, 0)


async def test_a_source_is_sized_up_in_short_calls(partition: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("libs.views.votes.vote_reads.CHANGES_PAGE", 2)
    size = partition.views.source
    assert await size(0, "contest", "sms", ["a", "b", "c"]) == SourceSize(0, 0, 3)
    await partition.fold(a_report("first", ("a", 1, 1, 0), ("b", 1, 1, 0)), ContestClosed("contest", 1, "sms"))
    assert await size(0, "contest", "sms", ["a", "x", "b", "y", "z"]) == SourceSize(1, 2, 3)
    await partition.fold(ContestReopened("contest", 1))
    assert await size(0, "contest", "sms", []) == SourceSize(0, 2, 0)
