"""The state of a contest's closing in a partition, and the effect of markers on later events."""

from collections.abc import Mapping
from typing import Any

import pytest

from libs.tally.events import ContestClosed, ContestReopened
from libs.tally.reservations import Duplicate, NotRunning
from libs.tally.vote_commands import RemoveVote
from libs.views.votes import closing_reads
from tests.libs.views.partition import Partition
from tests.support.builders.contests import a_contest, a_vote, pseudonym

CLOSED, REOPENED = ContestClosed("contest", 1), ContestReopened("contest", 1)


async def test_a_partition_tells_what_a_close_must_wait_for(partition: Partition) -> None:
    fresh = await partition.views.closing(0, "contest")
    assert (fresh.open, fresh.pending, fresh.closed, fresh.reopened) == (True, 0, 0, 0)
    granted = await partition.grant(a_vote())
    await partition.grant(a_vote(vote_id="other", contest="other"), a_contest(key="other"))
    pending = await partition.views.closing(0, "contest")
    assert pending.pending == 1
    await partition.record(a_vote(), granted)
    await partition.fold(CLOSED, ContestClosed("contest", 1, "sms"))
    marked = await partition.views.closing(0, "contest")
    assert (marked.pending, marked.closed, marked.sources) == (0, 1, {"sms": 1})
    await partition.fold(REOPENED)
    again = await partition.views.closing(0, "contest")
    assert (again.closed, again.reopened, again.sources) == (0, 1, {"sms": 0})
    await partition.shut()
    assert not (await partition.views.closing(0, "contest")).open


async def test_a_contest_whose_closing_is_in_force_admits_nobody_but_knows_its_votes(partition: Partition) -> None:
    await partition.cast(a_vote())
    closed = a_contest(version=2, closed=1)
    await partition.views.raise_config(0, "contest", 2)
    assert isinstance(await partition.reserve(a_vote(voter="other"), closed), NotRunning)
    removal = RemoveVote("contest", pseudonym("voter"), "vote")
    assert isinstance(await partition.ask_removal(removal, closed), NotRunning)
    assert isinstance(await partition.reserve(a_vote(), closed), Duplicate)


async def test_pending_votes_are_counted_in_short_calls_under_one_fence_epoch(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that no call grows with what is pending, which a close waits for."""
    monkeypatch.setattr(closing_reads, "PENDING_PAGE", 10)
    long_key = "contest" * 9  # Valkey scans a hash of few short fields at once
    for number in range(60):
        await partition.grant(a_vote(contest=long_key, voter=f"voter {number}"), a_contest(key=long_key))
    found: list[int] = []
    read = closing_reads.read_pages

    async def counted(*args: Any) -> Mapping[int, closing_reads.Page]:
        pages = await read(*args)
        found.extend(page[3] for page in pages.values())
        return pages

    monkeypatch.setattr(closing_reads, "read_pages", counted)
    assert (await partition.views.closing(0, long_key)).pending == 60
    assert len(found) > 2
    assert max(found) < 30

    async def fenced_meanwhile(*args: Any) -> Mapping[int, closing_reads.Page]:
        pages = await read(*args)
        if args[2] == {0: closing_reads.BEGIN}:
            await partition.fence()
        return pages

    monkeypatch.setattr(closing_reads, "read_pages", fenced_meanwhile)
    state = await partition.views.closing(0, long_key)
    assert not state.open
    assert state.pending < 60
