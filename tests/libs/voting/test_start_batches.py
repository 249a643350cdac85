"""Groups of votes under load: few votes start at once, many start together, and none waits for long."""

import asyncio
from functools import partial

import pytest

from libs.voting import batching
from libs.voting.batching import FEW_RUNS, LEAST_GROUP, MOST_GROUP, StartBatcher
from tests.support.eventually import eventually

NEVER_S = 3600.0


class Runs:
    """Keeps the started runs by group."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self._tick: list[int] | None = None
        self.now = 0.0
        self.pace = StartBatcher[int](self._start, lambda: self.now)

    def _start(self, run: int) -> None:
        if self._tick is None:
            self._tick = []
            self.groups.append(self._tick)
            asyncio.get_running_loop().call_soon(self._end_tick)
        self._tick.append(run)

    def _end_tick(self) -> None:
        self._tick = None

    async def add_one_by_one(self, *runs: int) -> None:
        """Add each run in a tick of its own."""
        for run in runs:
            self.pace.add(run)
            await ticks()

    def has_started_alone(self, run: int) -> bool:
        return self.groups[-1] == [run]

    async def pass_load(self, count: int, took_s: float = 0.0) -> None:
        """Start so many runs at once, and end them."""
        for run in range(count):
            self.pace.add(run)
        await ticks()
        assert [len(group) for group in self.groups] == [count]
        self.now += took_s
        for _ in range(count):
            self.pace.end()
        self.groups.clear()


async def ticks() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> None:
    """Incomplete groups never start."""
    monkeypatch.setattr(batching, "SHORT_WAIT_S", NEVER_S)
    monkeypatch.setattr(batching, "LONGEST_WAIT_S", NEVER_S)


@pytest.fixture
def runs() -> Runs:
    return Runs()


@pytest.mark.usefixtures("never")
async def test_few_votes_start_at_once_and_many_of_one_tick_together(runs: Runs) -> None:
    await runs.add_one_by_one(*range(FEW_RUNS - 1))
    assert runs.groups == [[run] for run in range(FEW_RUNS - 1)]
    await Runs().pass_load(10 * LEAST_GROUP)


@pytest.mark.usefixtures("never")
@pytest.mark.parametrize(
    ("load", "size"),
    [
        (FEW_RUNS, FEW_RUNS),
        (LEAST_GROUP, LEAST_GROUP),
        (2 * LEAST_GROUP, LEAST_GROUP),
        (3 * LEAST_GROUP, 3 * LEAST_GROUP // 2),
        (10 * MOST_GROUP, MOST_GROUP),
    ],
)
async def test_under_load_votes_wait_for_half_as_many_as_before(runs: Runs, load: int, size: int) -> None:
    """For all of few, and not for more than a call takes of many."""
    await runs.pass_load(load)
    group = range(size)
    await runs.add_one_by_one(*group[:-1])
    assert runs.groups == []
    await runs.add_one_by_one(group[-1])
    assert runs.groups == [[*group]]


async def test_an_incomplete_group_starts_after_a_while_and_a_lone_vote_after_it_at_once(runs: Runs) -> None:
    await runs.pass_load(LEAST_GROUP)
    runs.pace.add(1)
    await eventually(lambda: runs.groups == [[1]])
    runs.pace.end()
    await runs.add_one_by_one(2, 3)
    assert runs.groups == [[1], [2], [3]]


@pytest.mark.parametrize("longest_s", [0.0, NEVER_S])
async def test_an_incomplete_group_waits_as_long_as_votes_took_up_to_a_bound(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, longest_s: float
) -> None:
    """On a busy machine clients need longer to send their next votes, too."""
    monkeypatch.setattr(batching, "SHORT_WAIT_S", 0.0)
    monkeypatch.setattr(batching, "LONGEST_WAIT_S", longest_s)
    await runs.pass_load(LEAST_GROUP, took_s=NEVER_S)
    await runs.add_one_by_one(1)
    if longest_s:
        assert runs.groups == []
    else:
        await eventually(lambda: runs.groups == [[1]])


async def test_votes_that_never_end_do_not_hold_the_others(runs: Runs) -> None:
    for run in range(LEAST_GROUP):
        runs.pace.add(run)
    for run in range(LEAST_GROUP, LEAST_GROUP + 3):
        await ticks()
        runs.pace.add(run)
        await eventually(partial(runs.has_started_alone, run))
