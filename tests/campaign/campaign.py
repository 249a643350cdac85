"""A campaign: voters and operators at work, one episode of faults after the other, and a comparison at the end."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import psutil

from libs.deployment.deployment import Deployment
from libs.monitoring.health_problems import BEHIND_S
from libs.monitoring.status import Status
from libs.storage.secrets import contest_secret
from services.cli.deployment_discovery import find_addresses
from services.ingestion.vote_forms import voter_pseudonym
from tests.campaign.alarms import Alarms
from tests.campaign.clients import SEATS, Crowd
from tests.campaign.commands import Commands
from tests.campaign.comparison import compare
from tests.campaign.evidence import DidNotBite
from tests.campaign.faults import Fault, emptied, named, restarted
from tests.campaign.finals import Finals
from tests.campaign.operators import Operator
from tests.campaign.plan import Episode
from tests.campaign.readers import Readers
from tests.campaign.report import Outcome
from tests.campaign.stage import Stage
from tests.campaign.trade import Trade

HEAL_S: Final = 300.0
"""Time in which everything must work again, on any machine; the report has the real times."""
SLOW_S: Final = 10.0
"""Time to heal, over which the last reading before is printed."""
FIRST_VOTES_S: Final = 5.0
AGAIN_S: Final = 0.5
LATE: Final = "does not answer in time"
PROGRESS_S: Final = 60.0
COMPARISONS: Final = 2


@dataclass
class Campaign:
    stage: Stage
    crowd: Crowd
    operator: Operator
    trade: Trade
    commands: Commands
    finals: Finals
    readers: Readers
    faults: Mapping[str, Fault]
    alarms: Alarms
    outcomes: list[Outcome] = field(default_factory=list)
    compared: int = 0
    """Comparisons that were completed."""

    async def run(self, episodes: Iterator[Episode], until: float) -> None:
        """Play episodes until the time (of the monotonic clock), then let everything settle, and compare.

        It is compared once more after all processes were restarted and Valkey was emptied.
        """
        beside = [asyncio.create_task(each) for each in (self.alarms.watch_calm(), self._report_progress())]
        try:
            async with asyncio.TaskGroup() as people:
                for work in (
                    *(self.crowd.run(), self.operator.work(), self.trade.work(), self.commands.work()),
                    *(self.finals.work(), self.readers.read_forwards(), self.readers.follow_stream()),
                ):
                    people.create_task(work)
                await asyncio.sleep(FIRST_VOTES_S)
                self.alarms.calm(True)
                while time.monotonic() < until:
                    await self.play(next(episodes))
                self.crowd.stop.set()
            self.alarms.calm(False)
            print("comparing", flush=True)
            try:
                await self._compare()
            except (AssertionError, DidNotBite) as error:
                self.crowd.oracle.untrue(f"the comparison cannot be completed: {error}")
        finally:
            for task in beside:
                task.cancel()

    async def _compare(self) -> None:
        """Raises `AssertionError` if something does not become readable in time."""
        await self.commands.finish()
        await self.operator.close()
        await self._locate()
        await self._compare_all()
        await self.commands.seal(self.crowd.polls["changing"].contest.key)
        names = list(self.stage.stack.pids)
        print("restarting everything, and comparing again", flush=True)
        async with restarted(named(*names), self.stage):
            pass
        print("emptying Valkey, and comparing again", flush=True)
        async with emptied(named(*(each for each in names if each.startswith("valkey"))), self.stage):
            pass
        await self._compare_all()

    async def _locate(self) -> None:
        """Find the partitions of the voters of the first topic."""
        async with Deployment(find_addresses(self.stage.stack.data_dir)) as deployment:
            topic = deployment.votes.topic_from(0)
            for poll in self.crowd.polls.values():
                secret = await contest_secret(deployment.store, poll.contest.key)
                for voter in poll.votes:
                    pseudonym = voter_pseudonym(secret, voter, None)
                    self.crowd.oracle.partitions[poll.contest.key, voter] = topic.partition_of(pseudonym)

    async def _compare_all(self) -> None:
        await compare(self.crowd, self.stage.stack.data_dir)
        await self.readers.compare()
        await self.trade.compare()
        await self.commands.check()
        self.compared += 1

    async def play(self, episode: Episode) -> None:
        await asyncio.sleep(episode.after_s)
        self.alarms.calm(False)
        outcome = Outcome(episode, time.monotonic())
        self.outcomes.append(outcome)
        faults = [self.faults[name] for name in episode.faults]
        hits = [member for fault in faults for member in fault.hits]
        shards = await self.stage.shards() if self.stage.is_cluster and {*hits} == {"valkey"} else {}
        async with AsyncExitStack() as opened:
            for number, name in enumerate(episode.faults):
                await asyncio.sleep(number * episode.apart_s)
                await opened.enter_async_context(self._happening(name, outcome))
            outcome.hit_partitions = frozenset(
                partition
                for partition, servers in shards.items()
                if any(self.stage.is_lost(*server) for server in servers.items())
            )
            if any(fault.lasts for fault in faults):
                async with self.alarms.beside(outcome, hits, any(fault.is_shown for fault in faults)):
                    await asyncio.sleep(episode.lasts_s)
        outcome.ended_at = time.monotonic()
        await self._heal(outcome)
        outcome.healed_at = time.monotonic()
        self.crowd.oracle.disturbed.append((outcome.began_at, outcome.healed_at))
        self.alarms.calm(True)
        print(f"{episode}: healed after {outcome.heal_s:.1f} s; status: {sorted(outcome.alarms)}", flush=True)
        for name, why in outcome.did_not_bite.items():
            print(f"    {name} did not bite: {why}", flush=True)
        if outcome.heal_s > SLOW_S:
            print(f"    before it: {outcome.healed_last}", flush=True)

    @asynccontextmanager
    async def _happening(self, name: str, outcome: Outcome) -> AsyncIterator[None]:
        """Let a fault last, and note if it did not happen: another one may have, all the same."""
        is_open = False
        try:
            async with self.faults[name].happen(self.stage):
                is_open = True
                yield
        except DidNotBite as error:
            outcome.did_not_bite[name] = str(error)
            if not is_open:
                yield

    async def _heal(self, outcome: Outcome) -> None:
        """Wait until each seat was answered what it has sent since, no view is behind, and the status names no
        problem."""
        deadline = outcome.ended_at + HEAL_S
        while time.monotonic() < deadline:
            status, problems = await self.alarms.read()
            done = sum(since > outcome.ended_at for seat, since in self.crowd.last_done.items() if seat >= 0)
            if is_well := status is not None and not _is_behind(status):
                outcome.lag_gone_at = min(outcome.lag_gone_at, time.monotonic())
            is_well = is_well and not problems
            if done == SEATS and problems and all(LATE in one.detail for one in problems):
                _, is_well = await self.commands.tally("status")  # a process of its own: this one is too busy
            if done == SEATS and is_well and await self.stage.is_checked():
                return
            outcome.healed_last = f"{done} of {SEATS} seats vote; {[str(one) for one in problems]}"
            await asyncio.sleep(AGAIN_S)
        self.crowd.oracle.untrue(f"{outcome.episode}: not healed: {outcome.healed_last}")

    async def _report_progress(self) -> None:
        """Print now and then what was done, and the share of a processor that the campaign itself takes."""
        own = psutil.Process()
        own.cpu_percent()
        while True:
            await asyncio.sleep(PROGRESS_S)
            votes = sum(1 for poll in self.crowd.oracle.polls for _ in poll.all_votes())
            print(
                f"-- {len(self.outcomes)} episodes, {votes} votes, {len(self.crowd.oracle.wrong)} untrue answers; "
                f"the campaign takes {own.cpu_percent():.0f} % of a processor",
                flush=True,
            )


def _is_behind(status: Status) -> bool:
    return any(row.lag_s > BEHIND_S for row in status.rows)
