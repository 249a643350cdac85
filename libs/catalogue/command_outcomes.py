"""Waits until the fold has decided commands, with one poll per process for all waiting writers."""

import asyncio
import logging
from collections.abc import Collection, Sequence
from typing import Final, Protocol

from libs.contracts.catalogue_events import Outcome
from libs.tally.errors import ViewsUnavailable

POLL_S: Final = 0.005
RETRY_S: Final = 0.1
MAX_COMMANDS: Final = 100
"""Maximum number of commands per call."""

logger = logging.getLogger(__name__)


class OutcomeReader(Protocol):
    """Reads outcomes from the catalogue's views."""

    async def outcomes(self, partition: int, command_ids: Sequence[str]) -> list[Outcome | None]: ...
    async def with_raises(self, partitions: Collection[int]) -> list[int]: ...


class OutcomePoll:
    """Waits for the outcomes of one environment's commands."""

    def __init__(self, views: OutcomeReader) -> None:
        self._views = views
        self._waiting: dict[int, dict[str, list[asyncio.Future[Outcome]]]] = {}
        self._poll: asyncio.Task[None] | None = None

    async def outcome(self, partition: int, command_id: str, deadline_s: float) -> Outcome:
        """Wait for the outcome of a command. Raises `TimeoutError` after `deadline_s`."""
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(partition, {}).setdefault(command_id, [])
        waiting.append(future)
        if self._poll is None or self._poll.done():
            self._poll = asyncio.create_task(self._run())
        try:
            async with asyncio.timeout(deadline_s):
                return await future
        finally:
            waiting.remove(future)
            if not waiting:
                self._forget(partition, command_id)

    async def _run(self) -> None:
        while self._waiting:
            try:
                await asyncio.gather(*(self._read(p, list(ids)) for p, ids in self._waiting.items()))
                await asyncio.sleep(POLL_S)
            except ViewsUnavailable:
                await asyncio.sleep(RETRY_S)
            except Exception:
                logger.exception("reading the outcomes of commands failed")
                await asyncio.sleep(RETRY_S)

    async def _read(self, partition: int, command_ids: list[str]) -> None:
        for at in range(0, len(command_ids), MAX_COMMANDS):
            page = command_ids[at : at + MAX_COMMANDS]
            for command_id, outcome in zip(page, await self._views.outcomes(partition, page), strict=True):
                self._settle(partition, command_id, outcome)

    def _settle(self, partition: int, command_id: str, outcome: Outcome | None) -> None:
        for future in self._waiting.get(partition, {}).get(command_id, ()):
            if outcome is not None and not future.done():
                future.set_result(outcome)

    def _forget(self, partition: int, command_id: str) -> None:
        """Remove the command unless another caller is waiting for it."""
        ids = self._waiting.get(partition, {})
        if not ids.get(command_id):
            ids.pop(command_id, None)
        if not ids:
            self._waiting.pop(partition, None)
