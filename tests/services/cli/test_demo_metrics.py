"""The demo's lag while votes come in."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from libs.contracts.log_records import Position
from libs.deployment.deployment import Deployment
from services.cli.commands.demo import screen
from services.cli.commands.demo.screen import LiveMetrics
from tests.support.eventually import eventually


class GrowingLog:
    """Folded at once; each answer of its ends is held back until `answer` is set."""

    def __init__(self) -> None:
        self.end = 1
        self.asked, self.answer = asyncio.Event(), asyncio.Event()

    async def state(self, _: int) -> Any:
        return SimpleNamespace(position=Position("log", self.end), open=True, pending=0)

    async def end_offsets(self, _: str, partitions: list[int]) -> dict[int, int]:
        self.asked.set()
        await self.answer.wait()
        return dict.fromkeys(partitions, self.end)


async def test_the_lag_is_never_negative_while_the_next_one_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "STALE_S", 3_600.0)  # for a busy machine
    log = GrowingLog()
    deployment = SimpleNamespace(votes=SimpleNamespace(name="votes", numbers=[4, 5]), reader=log, vote_views=log)
    metrics = LiveMetrics(cast(httpx.AsyncClient, None), "contest", cast(Deployment, deployment))
    log.answer.set()
    await metrics.read_lag()
    assert metrics.lag == 0
    log.answer.clear()
    log.asked.clear()
    log.end = 52
    measuring = asyncio.create_task(metrics.read_lag())
    await eventually(log.asked.is_set)
    assert metrics.lag == 0
    log.answer.set()
    await measuring
    assert metrics.lag == 0
