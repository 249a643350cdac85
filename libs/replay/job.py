"""Runs or resumes a replay: folds, verifies and swaps."""

import asyncio
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from libs.audit.log_fold import without_gc
from libs.contracts.log_records import Position
from libs.deployment.deployment import Deployment, Progress
from libs.kafka.reader import Extent
from libs.replay.generation_fold import Replay
from libs.replay.swap import SWAP_S, NotReached, swap, try_swap
from libs.replay.targets import ReplayTarget, next_number, unfinished
from libs.replay.verification import VerificationResult, verify_generation
from libs.views.generations.generations import GenerationGone, ProjectionName
from libs.views.valkey.function_loading import load_functions


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """Result of a replay; `swapped`: readers now see the generation; `resumed`: an earlier run began it."""

    projection: ProjectionName
    generation: int
    resumed: bool
    events: int
    seconds: float
    events_per_s: float
    verified: VerificationResult
    swapped: bool


class FoldedEvents:
    """Counts the events of a replay, with offsets by partition from `starts` on, and measures their rate."""

    def __init__(self, starts: Mapping[int, int], progress: Progress) -> None:
        self._at = dict(starts)
        self._began = time.monotonic()
        self._progress = progress
        self.events = 0
        self.seconds = 0.0

    def update(self, partition: int, offset: int) -> None:
        steps = offset - self._at[partition]
        self._at[partition] = offset
        self.events += steps
        self.seconds = time.monotonic() - self._began
        self._progress.advance(steps)

    @property
    def events_per_s(self) -> float:
        return self.events / max(self.seconds, 1e-6)


class Job:
    """Rebuilds one target. Progress is stored in the generations, so a replay can be resumed."""

    def __init__(self, deployment: Deployment, target: ReplayTarget, *, parallel: int) -> None:
        """`parallel` is the number of partitions folded at a time."""
        self._deployment = deployment
        self._target = target
        self._generations = deployment.projections[target.projection]
        self._partitions = target.of(self._generations.topic.numbers)
        self._parallel = parallel

    async def run(self, *, accept: bool = False) -> Rebuilt:
        """Fold, verify, swap; with `accept` also if other projections than the votes differ from the live
        generation, or votes were folded with other fences.

        The swap drops a generation kept before. Raises `FencesDiffer`, `GenerationGone`, `LogChanged`,
        `LogUnavailable` and `ViewsUnavailable`; another call resumes.
        """
        await load_functions(self._deployment.valkey)
        number, resumed, left = await self._open()
        with without_gc():
            folded = await self._fold(number)
            verification = await verify_generation(self._deployment, self._target, number, left)
        swapped = verification.allows_swap(accept=accept)
        if swapped:
            await self._swap(number, left, accept)
            await self._generations.sweep()
        done = folded.events, folded.seconds, folded.events_per_s
        return Rebuilt(self._target.projection, number, resumed, *done, verification, swapped)

    async def _open(self) -> tuple[int, bool, list[int]]:
        """Return the number, whether an earlier run began it, and the partitions not swapped yet."""
        found = await self._generations.read_all()
        known = unfinished(found, self._partitions)
        number = next_number(found) if known is None else known
        for partition in self._partitions:
            if not await self._generations.open(partition, number):
                one = found[partition].get(number)
                if one is None or one != found[partition].live:
                    raise GenerationGone.of(number, self._generations.base(partition))
        left = [partition for partition in self._partitions if found[partition].live.number != number]
        return number, known is not None, left

    async def _swap(self, number: int, partitions: Collection[int], accept: bool) -> None:
        """Swap each partition.

        Projectors fold the generation together with the live one, unless that has another layout, which projectors
        of another version fold alone: then it is folded here until it has caught up.
        """
        found = await self._generations.read_all()
        relaid = [one for one in partitions if found[one].live.schema != found[one].schema]
        for partition in set(partitions) - set(relaid):
            await swap(self._generations, partition, number, accept=accept)

        if not relaid:
            return

        async def overtakes(partition: int, position: Position) -> bool:
            live = (await self._generations.read(partition)).live
            passed = Extent(0 if live.position is None else live.position.offset, position.offset)
            if live.number != number and passed.beginning < passed.end:
                await self._target.before_overtaking(self._deployment, partition, passed)
            return await try_swap(self._generations, partition, number, accept=accept, at=position.offset)

        try:
            async with asyncio.timeout(SWAP_S):
                await self._replay(number).follow(relaid, lambda *_: None, overtakes)
        except TimeoutError:
            raise NotReached.of(self._generations.topic.name) from None

    def _replay(self, number: int) -> Replay:
        projection = self._target.into(self._deployment, number)
        return Replay(projection, self._generations, self._deployment.reader, number, self._parallel)

    async def _fold(self, number: int) -> FoldedEvents:
        topic = self._generations.topic.name
        ends = await self._deployment.reader.end_offsets(topic, self._partitions)
        found = await self._generations.read_all()
        starts = {partition: found[partition].offset_of(number) for partition in self._partitions}
        progress = self._deployment.progress
        progress.begin(f"Folding {self._target.projection}", sum(ends.values()) - sum(starts.values()))
        folded = FoldedEvents(starts, progress)
        left = [partition for partition in self._partitions if found[partition].live.number != number]
        await self._replay(number).follow(left, folded.update)
        return folded
