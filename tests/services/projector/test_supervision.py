"""Parts of the projector fail independently: restarted, or stopped for the operator."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from libs.kafka.errors import LogChanged, WrongTopic
from libs.telemetry.metrics import REGISTRY
from services.projector import supervision
from services.projector.supervision import PartFailed, Run, TaskSupervisor
from tests.support.eventually import eventually


@pytest.fixture(autouse=True)
def in_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "FIRST_BACKOFF_S", 0.001)


class Part:
    """Begins by raising `errors`, one each time; after them it works."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.begun = 0
        self.works = False

    async def run(self) -> None:
        self.begun += 1
        if self.errors:
            raise self.errors.pop(0)
        self.works = True
        await asyncio.Event().wait()


@asynccontextmanager
async def supervised(needed: frozenset[str] = frozenset(), **parts: Run) -> AsyncIterator[TaskSupervisor]:
    supervisor = TaskSupervisor(parts, needed)
    task = asyncio.create_task(supervisor.run())
    try:
        yield supervisor
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def fails(check: Callable[[], Awaitable[None]]) -> str:
    try:
        await check()
    except PartFailed as failed:
        return failed.message
    return ""


async def test_a_part_that_fails_is_started_again_and_ends_no_other() -> None:
    bad, good = Part(RuntimeError("a bug"), KeyError("another")), Part()
    async with supervised(bad=bad.run, good=good.run) as supervisor:
        await eventually(lambda: bad.works)
        assert (bad.begun, good.begun) == (3, 1)
        assert not await fails(supervisor.checks()["bad"])
    assert REGISTRY.get_sample_value("tally_projector_part_up", {"part": "bad"}) == 1


async def test_a_part_that_ran_before_it_failed_is_started_again_without_a_longer_delay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervision, "STABLE_S", 0.0)
    bad = Part(*[RuntimeError("a bug")] * 16)
    async with supervised(bad=bad.run):
        await eventually(lambda: bad.works, deadline_s=20)


async def test_a_part_that_needs_an_operator_stops_alone_and_says_why() -> None:
    bad, good = Part(LogChanged("it was recreated")), Part()
    async with supervised(frozenset({"bad", "good"}), bad=bad.run, good=good.run) as supervisor:
        await eventually(lambda: good.works)

        async def said() -> bool:
            return "it was recreated" in await fails(supervisor.checks()["bad"])

        await eventually(said)
        assert not await fails(supervisor.checks()["good"])
        assert bad.begun == 1
    assert REGISTRY.get_sample_value("tally_projector_part_up", {"part": "bad"}) == 0


async def test_where_nothing_can_be_folded_any_more_it_ends_and_says_all_that_is_wrong() -> None:
    parts: dict[str, Run] = {
        "one": Part(LogChanged("recreated")).run,
        "other": Part(WrongTopic("too short")).run,
        "manager": Part().run,
    }
    with pytest.raises(ExceptionGroup) as ended:
        await asyncio.wait_for(TaskSupervisor(parts, frozenset({"one", "other"})).run(), 60)
    wrong = ended.value.subgroup(supervision.UNSERVABLE)
    assert wrong is not None
    assert "recreated" in repr(wrong)
    assert "too short" in repr(wrong)
