"""Reports of external sources: no call's cost grows with a source's number of ids."""

import pytest

from libs.tally.counts import VoteSums
from libs.tally.events import ContestClosed, ContestReopened
from libs.views.votes.reply_types import SourceSize
from tests.libs.views.partition import Partition
from tests.libs.views.recorded_replies import CountCalls
from tests.support.builders.contests import a_report

IDS = [f"id {number}" for number in range(300)]


async def test_figures_are_read_in_parts_with_what_changes_meanwhile(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("libs.views.votes.vote_reads.CHANGES_PAGE", 100)
    await partition.fold(a_report("all", *((mapped_id, 5, 1, 0) for mapped_id in IDS)))
    calls = CountCalls(partition.views, monkeypatch)

    async def report() -> None:
        calls.between = None
        counts = ("id 0", 7, 1, 0), ("id 299", 8, 1, 0), ("id 1", 2, 1, 0)
        await partition.fold(a_report("meanwhile", *counts), a_report("release", allow_decrease=True))

    calls.between = report
    counts = await partition.counts()
    assert counts.position.offset == partition.end
    assert calls.figures == [100, 100, 100, 3]
    expected = {mapped_id: VoteSums(5, 1, 0) for mapped_id in IDS}
    expected |= {"id 0": VoteSums(7, 1, 0), "id 299": VoteSums(8, 1, 0), "id 1": VoteSums(2, 1, 0)}
    assert (counts.sources["sms"].figures, counts.sources["sms"].held) == (expected, {})


async def test_a_source_is_sized_up_in_short_calls(partition: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("libs.views.votes.vote_reads.CHANGES_PAGE", 2)
    size = partition.views.source
    assert await size(0, "contest", "sms", ["a", "b", "c"]) == SourceSize(0, 0, 3)
    await partition.fold(a_report("first", ("a", 1, 1, 0), ("b", 1, 1, 0)), ContestClosed("contest", 1, "sms"))
    assert await size(0, "contest", "sms", ["a", "x", "b", "y", "z"]) == SourceSize(1, 2, 3)
    await partition.fold(ContestReopened("contest", 1))
    assert await size(0, "contest", "sms", []) == SourceSize(0, 2, 0)
