"""Replays: an operator's command that rebuilds views while all goes on, and may swap the former ones back in."""

import asyncio
from typing import Final

from libs.replay.job import Job
from libs.replay.swap import roll_back
from libs.replay.targets import ReplayTarget
from libs.tally.errors import TallyError
from libs.views.generations.generations import GenerationGone, ProjectionName
from tests.simulation.clients import Client
from tests.simulation.deployment import ACCOUNT, Clients, Service
from tests.simulation.virtual_loop import SimulatedProcess

STEPS: Final = ("open", "fold", "fold", "compare", "swap", "swap", "renew")
"""Calls at which a replay may stumble, by their weights."""


class Rebuild(Service):
    """The command: it is run again until it is done, also after a kill."""

    def __init__(
        self,
        client: Client,
        projection: ProjectionName,
        *,
        is_partial: bool = False,
        rolls_back_after_s: float | None = None,
        only_rolls_back: bool = False,
        newer: str = "",
    ) -> None:
        """`is_partial`: of one partition alone. It may roll back some time after the swap, or do only that."""
        self.projection = projection
        self.is_partial = is_partial
        self.number: int | None = None
        """The generation that was swapped in last, if that is known."""
        self.is_rebuilt, self.is_done, self.is_gone = only_rolls_back, False, False
        """`is_gone`: what was kept had expired when it was to be rolled back, perhaps in the middle of that."""
        self._client = client
        self._world = client.world
        self._rolls_back_after_s = 0.0 if only_rolls_back else rolls_back_after_s
        self._completed = client.world.loop.create_future()
        client.world.open_requests += 1
        client.world.rebuilds.append(self)
        super().__init__(client.world.deployment, client.name, newer)

    @property
    def target(self) -> ReplayTarget:
        """The projection; of the catalogue the partition that is in use, unless its layout changes."""
        if self.projection is ProjectionName.CATALOGUE and not self.newer:
            return ReplayTarget(self.projection, [self._world.catalogue_topic.partition_of(ACCOUNT)])
        return ReplayTarget(self.projection, [0] if self.is_partial else None)

    async def run(self, its: Clients) -> None:
        if self.is_done:
            return
        while not self.is_rebuilt:
            await self._rebuild(its)
        if self._rolls_back_after_s is not None:
            await asyncio.sleep(self._rolls_back_after_s)
            await self._roll_back(its)
        self.is_done = True
        self._world.open_requests -= 1
        self._completed.set_result(None)

    async def ended(self) -> None:
        await asyncio.shield(self._completed)

    async def _rebuild(self, its: Clients) -> None:
        world = self._world
        try:
            done = await Job(its, self.target, parallel=self._client.rng.choice([1, 4])).run()
        except TallyError as error:
            world.note(f"cannot rebuild {self.projection} yet: {type(error).__name__}: {error.message}")
            await self._client.pause(0.05, 0.5)
            return
        world.note(f"has rebuilt {self.projection} in generation {done.generation}, swapped: {done.swapped}")
        if not done.swapped:
            world.broken.append(f"{self.projection} differ from what they are rebuilt to: {done.verified}")
        self.is_rebuilt, self.number = True, done.generation

    async def _roll_back(self, its: Clients) -> None:
        world, generations = self._world, its.projections[self.projection]
        self.number = None  # after a kill it is not known whether it was done
        while True:
            try:
                number, swaps = await roll_back(generations, execute=True, accept=False)
            except GenerationGone as error:
                world.note(f"cannot roll {self.projection} back: {error.message}")
                self.is_gone = True
                return
            except TallyError as error:
                world.note(f"cannot roll {self.projection} back yet: {type(error).__name__}: {error.message}")
                await self._client.pause(0.05, 0.5)
                continue
            world.note(f"has rolled {self.projection} back: {number}, {dict(swaps)}")
            former = {*swaps.values()}  # several if a server lost a swap
            self.number = former.pop() if len(former) == 1 else None
            return


def rebuild(client: Client) -> None:
    """Rebuild views by a process that may stumble, and perhaps roll back."""
    world, rng = client.world, client.rng
    names = [ProjectionName.VOTES, ProjectionName.VOTES, ProjectionName.CATALOGUE]
    if world.shape.has_purchases:
        names.append(ProjectionName.PURCHASES)
    back = rng.choice([None, None, 0.0, rng.uniform(0.0, 3.0)])
    step, number, length = rng.choice(STEPS), rng.choice([1, 1, 2, 3, 5]), rng.choice([0.3, 2.0, 4.5])
    stumbles, dies = rng.random() < 0.6, rng.random() < 0.5
    rebuilding = Rebuild(client, rng.choice(names), is_partial=rng.random() < 0.2, rolls_back_after_s=back)

    def stumble(process: SimulatedProcess) -> None:
        if process is rebuilding.process and dies:
            client.later(0.0, world.restart_later, rebuilding, length)
        elif process is rebuilding.process:
            client.later(0.0, world.freeze, process, length)

    if stumbles:
        world.deployment.at_moment(f"{rebuilding.projection}_{step}", number, stumble)
