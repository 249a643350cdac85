"""Supervision: isolates failures of the projector's parts, reports them, and restarts parts if that can help."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from libs.deployment.identity import WrongStore
from libs.kafka.errors import LogChanged, TopicMissing, WrongTopic
from libs.storage.object_store import StorageUnavailable
from libs.tally.errors import LogUnavailable, TallyError, ViewsUnavailable
from libs.telemetry.metrics import PROJECTOR_PART_FAILURES, PROJECTOR_PART_UP

RETRY_S: Final = 0.5
FIRST_BACKOFF_S: Final = 0.5
LONGEST_BACKOFF_S: Final = 30.0
STABLE_S: Final = 5.0
"""Seconds after which the failure of a part is not one of its start."""
UNSERVABLE: Final = LogChanged, WrongTopic, WrongStore
"""Errors that an operator must resolve: a restart does not help."""

logger = logging.getLogger(__name__)

Run = Callable[[], Awaitable[None]]
"""Runs until cancelled, or raises."""


class PartFailed(TallyError):
    """A part does not run now; the message has the reason, and whether it is restarted."""


class Startup:
    """Waits for the servers and topics that the process needs, and reports for what."""

    def __init__(self) -> None:
        self._waits_for: TallyError | None = PartFailed("it begins")

    async def check(self) -> None:
        """Raise what is waited for; for health checks."""
        if self._waits_for is not None:
            raise self._waits_for

    async def until_done(self, step: Callable[[], Awaitable[None]]) -> None:
        """Repeat `step` until servers and topics are there; its other errors are raised."""
        while True:
            try:
                return await step()
            except (LogUnavailable, StorageUnavailable, ViewsUnavailable, TopicMissing) as error:
                if str(error) != str(self._waits_for):
                    hint = ": run `tally topics create`" if isinstance(error, TopicMissing) else ""
                    logger.warning("waiting: %s%s", error, hint)
                self._waits_for = error
                await asyncio.sleep(RETRY_S)

    def end(self) -> None:
        self._waits_for = None


class TaskSupervisor:
    """Runs the named parts concurrently; without any of the `needed` ones the process is useless."""

    def __init__(self, parts: Mapping[str, Run], needed: frozenset[str]) -> None:
        self._parts = parts
        self._needed = needed
        self._failures: dict[str, PartFailed] = {}
        self._stopped: dict[str, Exception] = {}

    def checks(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return health checks by part: each raises `PartFailed` while the part does not run."""
        return {name: self._check(name) for name in self._parts}

    async def run(self) -> None:
        """Run until cancelled. Raises an `ExceptionGroup` of their errors once all needed parts have stopped."""
        async with asyncio.TaskGroup() as group:
            for name, run in self._parts.items():
                PROJECTOR_PART_FAILURES.labels(name)  # exports 0 as well
                group.create_task(self._keep(name, run), name=name)

    async def _keep(self, name: str, run: Run) -> None:
        backoff_s = FIRST_BACKOFF_S
        while True:
            began = time.monotonic()
            self._failures.pop(name, None)
            PROJECTOR_PART_UP.labels(name).set(1)
            try:
                await run()
            except UNSERVABLE as error:
                self._stop(name, error)
                return
            except Exception as error:
                if time.monotonic() - began > STABLE_S:
                    backoff_s = FIRST_BACKOFF_S
                self._fail(name, PartFailed(f"failed, and is started again: {error!r}"))
                logger.exception("%s failed, and is started again in %.1f s", name, backoff_s)
            await asyncio.sleep(backoff_s)
            backoff_s = min(2 * backoff_s, LONGEST_BACKOFF_S)

    def _stop(self, name: str, error: Exception) -> None:
        """Stop a part permanently. Others continue, unless no needed one is left."""
        self._fail(name, PartFailed(f"stopped until an operator has decided: {error}"))
        logger.critical("%s stopped: %s", name, error)
        self._stopped[name] = error
        if self._needed <= self._stopped.keys():
            raise ExceptionGroup("nothing is left to do", list(self._stopped.values()))

    def _fail(self, name: str, failure: PartFailed) -> None:
        self._failures[name] = failure
        PROJECTOR_PART_UP.labels(name).set(0)
        PROJECTOR_PART_FAILURES.labels(name).inc()

    def _check(self, name: str) -> Callable[[], Awaitable[None]]:
        async def check() -> None:
            if (failure := self._failures.get(name)) is not None:
                raise failure

        return check
