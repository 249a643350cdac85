"""Groups of votes under load: few votes start at once, many start together, and none waits for long."""

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from libs.voting import group_queue
from libs.voting.group_queue import FEW_VOTES, GROUP_VOTES, LEAST_GROUP, Group, GroupQueue
from tests.support.eventually import eventually

NEVER_S = 3600.0


def a_run(number: int) -> Any:
    return SimpleNamespace(
        number=number, partition=0, is_counted=False, joins=False, request=None, reserve_deadline=float("inf")
    )


class Votes:
    """Keeps the started votes by group, which is reserved at once."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.now = 0.0
        self.runs: dict[int, Any] = {}
        self.queue = GroupQueue(lambda _: 0, self._start, lambda _: None, lambda: self.now)

    def _start(self, group: Group) -> None:
        self.groups.append([run.number for runs in group.parts.values() for run in runs])  # type: ignore[attr-defined]
        asyncio.get_running_loop().call_soon(self.queue.reserved, group)

    def add(self, number: int) -> None:
        run = self.runs[number] = a_run(number)
        self.queue.add(run)

    def end(self, number: int) -> None:
        self.queue.end(self.runs[number])

    async def add_one_by_one(self, *numbers: int) -> None:
        """Add each vote in a tick of its own."""
        for number in numbers:
            self.add(number)
            await ticks()

    def has_started_alone(self, number: int) -> bool:
        return self.groups[-1] == [number]

    async def pass_load(self, count: int, took_s: float = 0.0) -> None:
        """Start so many votes at once, and end them."""
        for number in range(count):
            self.add(number)
        await ticks()
        await eventually(lambda: sum(map(len, self.groups)) == count)
        assert len(self.groups) == -(-count // GROUP_VOTES)
        self.now += took_s
        for number in range(count):
            self.end(number)
        self.groups.clear()


async def ticks() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> None:
    """Incomplete groups never start."""
    monkeypatch.setattr(group_queue, "SHORT_WAIT_S", NEVER_S)
    monkeypatch.setattr(group_queue, "LONGEST_WAIT_S", NEVER_S)


@pytest.fixture
def votes() -> Votes:
    return Votes()


@pytest.mark.usefixtures("never")
async def test_few_votes_start_at_once_and_many_of_one_tick_together(votes: Votes) -> None:
    await votes.add_one_by_one(*range(FEW_VOTES - 1))
    assert votes.groups == [[number] for number in range(FEW_VOTES - 1)]
    await Votes().pass_load(10 * LEAST_GROUP)


@pytest.mark.usefixtures("never")
@pytest.mark.parametrize(
    ("load", "size"),
    [
        (FEW_VOTES, FEW_VOTES),
        (LEAST_GROUP, LEAST_GROUP),
        (2 * LEAST_GROUP, LEAST_GROUP),
        (3 * LEAST_GROUP, 3 * LEAST_GROUP // 2),
        (10 * GROUP_VOTES, GROUP_VOTES),
    ],
)
async def test_under_load_votes_wait_for_half_as_many_as_before(votes: Votes, load: int, size: int) -> None:
    """For all of few, and not for more than a call takes of many."""
    await votes.pass_load(load)
    group = range(size)
    await votes.add_one_by_one(*group[:-1])
    assert votes.groups == []
    await votes.add_one_by_one(group[-1])
    assert votes.groups == [[*group]]


async def test_an_incomplete_group_starts_after_a_while_and_a_lone_vote_after_it_at_once(votes: Votes) -> None:
    await votes.pass_load(LEAST_GROUP)
    votes.add(1)
    await eventually(lambda: votes.groups == [[1]])
    votes.end(1)
    await votes.add_one_by_one(2, 3)
    assert votes.groups == [[1], [2], [3]]


@pytest.mark.parametrize("longest_s", [0.0, NEVER_S])
async def test_an_incomplete_group_waits_as_long_as_votes_took_up_to_a_bound(
    votes: Votes, monkeypatch: pytest.MonkeyPatch, longest_s: float
) -> None:
    """On a busy machine clients need longer to send their next votes, too."""
    monkeypatch.setattr(group_queue, "SHORT_WAIT_S", 0.0)
    monkeypatch.setattr(group_queue, "LONGEST_WAIT_S", longest_s)
    await votes.pass_load(LEAST_GROUP, took_s=NEVER_S)
    await votes.add_one_by_one(1)
    if longest_s:
        assert votes.groups == []
    else:
        await eventually(lambda: votes.groups == [[1]])


async def test_votes_that_never_end_do_not_hold_the_others(votes: Votes) -> None:
    for number in range(LEAST_GROUP):
        votes.add(number)
    for number in range(LEAST_GROUP, LEAST_GROUP + 3):
        await ticks()
        votes.add(number)
        await eventually(partial(votes.has_started_alone, number))


async def test_what_is_reserved_again_is_no_further_vote(votes: Votes) -> None:
    """Otherwise votes that a shut gate sends back would be waited for twice."""
    await votes.pass_load(LEAST_GROUP)
    await votes.add_one_by_one(*range(LEAST_GROUP))
    again = votes.runs[0]
    votes.queue.add(again)
    assert votes.queue._in_progress + votes.queue._waiting == LEAST_GROUP
