"""The alarms of `tally status` beside the faults: which it named, which it missed, and which were false."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from libs.concurrency.tasks import end_tasks
from libs.monitoring.health_problems import HealthProblem, problems_of
from libs.monitoring.status import Status
from libs.tally.errors import TallyError
from services.cli.commands.status import read_present_status
from services.cli.deployment_discovery import find_addresses
from tests.campaign.report import Outcome
from tests.campaign.stage import KINDS

EVERY_S: Final = 1.0
DETECTED_S: Final = 10.0
"""Time by which the status names a member that it can see; two reads with a silent server take as long."""
CALM_S: Final = 5.0
"""Time between two reads while no fault is there."""


async def read_status(data_dir: Path) -> Status:
    return await read_present_status(find_addresses(data_dir))


@dataclass
class Alarms:
    """Reads the status all the time, and compares its alarms with the faults that are there."""

    data_dir: Path
    false: Counter[str] = field(default_factory=Counter)
    """Alarms while no fault was there, or of members that none had hit."""
    calm_reads: int = 0
    _is_calm: asyncio.Event = field(default_factory=asyncio.Event)
    _calm_since: float = 0.0

    async def read(self) -> tuple[Status | None, list[HealthProblem]]:
        """Return the status and its problems; None if it cannot be read."""
        try:
            status = await read_status(self.data_dir)
            return status, problems_of(status)
        except (TallyError, TimeoutError, OSError) as error:
            return None, [HealthProblem("unread", "status", repr(error), "")]

    async def watch_calm(self) -> None:
        """Read it between the episodes, until cancelled."""
        while True:
            await self._is_calm.wait()
            since = time.monotonic()
            _, problems = await self.read()
            if self._is_calm.is_set() and since > self._calm_since:
                self.calm_reads += 1
                self.false.update(f"no fault: {one}" for one in problems)
            await asyncio.sleep(CALM_S)

    def calm(self, is_calm: bool) -> None:
        """Say whether all that an episode broke is well again."""
        self._calm_since = time.monotonic()
        (self._is_calm.set if is_calm else self._is_calm.clear)()

    @asynccontextmanager
    async def beside(self, outcome: Outcome, hits: Sequence[str], is_shown: bool) -> AsyncIterator[None]:
        """Compare the alarms with an episode's faults while they last; `hits` are the kinds of members.

        `is_shown`: the status must name one of them if they last for long enough.
        """
        watching = asyncio.create_task(self._watch(outcome, hits))
        try:
            yield
        finally:
            await end_tasks([watching])
            lasted_s = time.monotonic() - outcome.began_at
            outcome.must_name = is_shown and lasted_s >= DETECTED_S

    async def _watch(self, outcome: Outcome, hits: Sequence[str]) -> None:
        while True:
            _, problems = await self.read()
            outcome.looked = True
            outcome.alarms |= {f"{one.where} {one.kind}" for one in problems}
            outcome.named |= any(_names(one, hit) for one in problems for hit in hits)
            strangers = {str(one) for one in problems if _is_of_others(one, hits)}
            outcome.false |= strangers
            self.false.update(f"{outcome.label}: {each}" for each in strangers)
            await asyncio.sleep(EVERY_S)


def _names(problem: HealthProblem, member: str) -> bool:
    """Return whether a problem is this member's: of a projector, also that its views are behind."""
    is_its = member in problem.where.lower() or member == problem.kind
    return is_its or (member == "projector" and problem.kind in ("stalled", "behind"))


def _is_of_others(problem: HealthProblem, hits: Sequence[str]) -> bool:
    """Return whether a problem says that a member which nothing hit is away, has ended or hangs.

    What fails in a member because another one is away is no false alarm, nor is that votes wait.
    """
    of_member = [each for each in KINDS if each in problem.where.lower()]
    waits = problem.detail.startswith("stopped or failing") or " is not ready" in problem.detail
    says_lost = problem.kind in ("away", "part") and not waits
    return says_lost and bool(of_member) and not {*of_member} & {*hits}
