"""A campaign: voters and operators at work, one episode of faults after the other, and a comparison at the end."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final

from libs.monitoring.health_problems import HealthProblem, problems_of
from libs.tally.errors import TallyError
from tests.campaign.clients import SEATS, Crowd
from tests.campaign.commands import Commands
from tests.campaign.comparison import compare, read_status
from tests.campaign.evidence import DidNotBite
from tests.campaign.faults import Fault
from tests.campaign.operators import Operator
from tests.campaign.plan import Episode
from tests.campaign.report import Outcome
from tests.campaign.stage import Stage
from tests.campaign.trade import Trade

HEAL_S: Final = 120.0
"""Time in which everything must work again, on any machine; the report has the real times."""
SLOW_S: Final = 10.0
"""Time to heal, over which the last reading before is printed."""
FIRST_VOTES_S: Final = 5.0
STATUS_EVERY_S: Final = 1.0


@dataclass
class Campaign:
    stage: Stage
    crowd: Crowd
    operator: Operator
    trade: Trade
    commands: Commands
    faults: Mapping[str, Fault]
    outcomes: list[Outcome] = field(default_factory=list)

    async def run(self, episodes: Iterator[Episode], until: float) -> None:
        """Play episodes until the time (of the monotonic clock), then let everything settle, and compare."""
        async with asyncio.TaskGroup() as people:
            people.create_task(self.crowd.run())
            people.create_task(self.operator.work())
            people.create_task(self.trade.work())
            people.create_task(self.commands.work())
            await asyncio.sleep(FIRST_VOTES_S)
            while time.monotonic() < until:
                await self.play(next(episodes))
            self.crowd.stop.set()
        print("comparing", flush=True)
        try:
            await self._compare()
        except AssertionError as error:
            self.crowd.oracle.untrue(f"the comparison cannot be completed: {error}")

    async def _compare(self) -> None:
        """Raises `AssertionError` if something does not become readable in time."""
        await self.commands.finish()
        await self.operator.close()
        await compare(self.crowd, self.stage.stack.data_dir)
        await self.trade.compare()
        await self.commands.check(self.crowd.polls["changing"].contest.key)

    async def play(self, episode: Episode) -> None:
        await asyncio.sleep(episode.after_s)
        outcome = Outcome(episode, time.monotonic())
        self.outcomes.append(outcome)
        faults = [self.faults[name] for name in episode.faults]
        hits = [member for fault in faults for member in fault.hits]
        watching: asyncio.Task[None] | None = None
        try:
            async with AsyncExitStack() as opened:
                for number, fault in enumerate(faults):
                    await asyncio.sleep(number * episode.apart_s)
                    await opened.enter_async_context(fault.happen(self.stage))
                if any(fault.lasts for fault in faults):
                    watching = asyncio.create_task(self._watch(outcome, hits))
                    await asyncio.sleep(episode.lasts_s)
                    watching.cancel()
        except DidNotBite as error:
            outcome.did_not_bite = str(error)
        outcome.ended_at = time.monotonic()
        await self._heal(outcome)
        outcome.healed_at = time.monotonic()
        print(f"{episode}: healed after {outcome.heal_s:.1f} s; status: {sorted(outcome.alarms)}", flush=True)
        if outcome.did_not_bite:
            print(f"    did not bite: {outcome.did_not_bite}", flush=True)
        if outcome.heal_s > SLOW_S:
            print(f"    before it: {outcome.healed_last}", flush=True)

    async def _watch(self, outcome: Outcome, hits: list[str]) -> None:
        """Read the status until it names one of the members that are hit."""
        while not outcome.named:
            await asyncio.sleep(STATUS_EVERY_S)
            problems = await self._problems()
            outcome.looked = True
            outcome.alarms |= {f"{one.where} {one.kind}" for one in problems}
            outcome.named = any(_names(one, hit) for one in problems for hit in hits)

    async def _heal(self, outcome: Outcome) -> None:
        """Wait until each seat was answered what it has sent since, and the status names no problem."""
        deadline = outcome.ended_at + HEAL_S
        while time.monotonic() < deadline:
            done = sum(since > outcome.ended_at for seat, since in self.crowd.last_done.items() if seat >= 0)
            problems = [str(one) for one in await self._problems()]
            if done == SEATS and not problems and await self.stage.is_checked():
                return
            outcome.healed_last = f"{done} of {SEATS} seats vote; {problems}"
            await asyncio.sleep(0.3)
        self.crowd.oracle.untrue(f"{outcome.episode}: not healed: {outcome.healed_last}")

    async def _problems(self) -> list[HealthProblem]:
        try:
            return problems_of(await read_status(self.stage.stack.data_dir))
        except (TallyError, TimeoutError, OSError) as error:
            return [HealthProblem("away", "status", repr(error), "")]


def _names(problem: HealthProblem, member: str) -> bool:
    """Return whether a problem is this member's: of a projector, also that its views are behind."""
    is_its = member in problem.where.lower() or member == problem.kind
    return is_its or (member == "projector" and problem.kind in ("stalled", "behind"))
