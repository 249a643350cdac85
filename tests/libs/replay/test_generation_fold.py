"""The loop of a replay on a real log and real views: everything once, despite any fault."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from libs.contracts.log_records import LogRecord, Position
from libs.kafka.errors import LogChanged
from libs.kafka.reader import LogReader
from libs.local_stack.servers import Servers
from libs.projection.votes_projection import VotesProjection
from libs.replay.generation_fold import Replay
from libs.tally.events import Event
from libs.views.generations.generations import GenerationGone, Generations, PartitionGenerations, State
from tests.support.builders.contests import a_cast
from tests.support.builders.folded_log import FoldedLog, folded_log
from tests.support.clients.vote_views import VoteViews

Before = Callable[[int, Position], Awaitable[None]]


class Interrupted(VotesProjection):
    """Folds, and has something happen before each fold."""

    def __init__(self, log: FoldedLog, generations: Generations, before: Before) -> None:
        views = VoteViews(log.valkey, log.stack.namespace, log.stack.partitions, generation=2)
        super().__init__(generations.topic, views, None)
        self._before = before
        self.folds = 0

    async def fold(self, partition: int, start: Position, records: Sequence[LogRecord]) -> bool:
        self.folds += 1
        await self._before(self.folds, start)
        return await super().fold(partition, start, records)


async def nothing(*_: Any) -> None:
    """Happens."""


@pytest.fixture
async def log(kafka: str, valkey_address: str, namespace: str) -> AsyncIterator[FoldedLog]:
    async with folded_log(kafka, valkey_address, namespace) as log:
        await log.append(votes(4_500))
        yield log


def votes(count: int, first: int = 0) -> list[Event | bytes]:
    return [a_cast(voter=f"voter {n}") for n in range(first, first + count)]


def generations_of(log: FoldedLog) -> Generations:
    return Generations(log.valkey, log.stack.namespace, "votes", log.topic)


@asynccontextmanager
async def a_replay(log: FoldedLog, before: Before = nothing) -> AsyncIterator[tuple[Replay, Generations]]:
    generations = generations_of(log)
    await generations.open(0, 2)
    async with LogReader(log.stack.kafka_settings) as opened:
        yield Replay(Interrupted(log, generations, before), generations, opened, 2), generations


async def follow(log: FoldedLog, before: Before = nothing) -> PartitionGenerations:
    """Replay until the new generation follows the live one, and return both."""
    async with a_replay(log, before) as (replay, generations):
        await replay.follow([0], lambda *_: None)
        return await generations.read(0)


async def voters(log: FoldedLog, generation: int) -> int:
    return int(await log.valkey.call("HLEN", log.key(f"g{generation}:voters:contest")))


async def test_it_folds_the_log_to_its_end_and_tells_how_far_it_is(log: FoldedLog) -> None:
    await log.fold()
    reported: list[tuple[int, int]] = []
    async with a_replay(log) as (replay, generations):
        await replay.follow([0], lambda *at: reported.append(at))
        found = (await generations.read(0)).others[2]
    assert reported == sorted(reported)
    assert reported[-1] == (0, 4_501)
    assert (found.state, found.position and found.position.offset) == (State.FOLLOWING, 4_501)
    assert await voters(log, 2) == 4_500


async def test_it_waits_for_what_is_appended_and_folded_meanwhile(log: FoldedLog) -> None:
    await log.fold()

    async def go_on(folds: int, _: Position) -> None:
        if folds == 1:
            await log.append(votes(700, 10_000))
            await log.fold()

    found = await follow(log, go_on)
    assert found.others[2].state is State.FOLLOWING
    assert found.others[2].position == found.live.position
    assert await voters(log, 2) == 5_200


async def test_what_another_one_has_folded_is_not_folded_again(log: FoldedLog) -> None:
    await log.fold()
    async with a_replay(log) as (other, _):

        async def overtaken(folds: int, _: Position) -> None:
            if folds == 2:
                await other.fold({0: 3_000}, lambda *_: None)

        await follow(log, overtaken)
    assert await voters(log, 2) == 4_500
    state = await VoteViews(log.valkey, log.stack.namespace, log.stack.partitions, generation=2).state(0)
    assert (state.position.offset, state.duplicates) == (4_501, 0)


async def test_views_that_went_back_are_folded_again_from_there(log: FoldedLog) -> None:
    await log.fold()
    copies: dict[bytes, bytes] = {}

    async def lose(folds: int, _: Position) -> None:
        keys = await log.valkey.call("KEYS", log.key("*").replace("{", "[{]"))
        if folds == 2:
            copies.update({key: await log.valkey.call("DUMP", key) for key in keys})
        if folds == 3:
            await log.valkey.call("DEL", *keys)
            for key, dumped in copies.items():
                await log.valkey.call("RESTORE", key, 0, dumped)

    await follow(log, lose)
    assert copies
    assert await voters(log, 2) == 4_500


async def test_a_kafka_that_is_killed_meanwhile_is_waited_for(log: FoldedLog, breakable: Servers) -> None:
    await log.fold()

    async def killed(folds: int, _: Position) -> None:
        if folds == 2:
            await breakable.kill("kafka")
            await breakable.restart("kafka")

    await follow(log, killed)
    assert await voters(log, 2) == 4_500


async def test_it_stops_exactly_at_the_given_offset(log: FoldedLog) -> None:
    async with a_replay(log) as (replay, _):
        assert (await replay.fold({0: 1_234}, lambda *_: None))[0].offset == 1_234
        assert (await replay.fold({0: 1_234}, lambda *_: None))[0].offset == 1_234
    assert await voters(log, 2) == 1_233


async def test_a_generation_that_was_dropped_ends_it(log: FoldedLog) -> None:
    await log.fold()

    async def drop(folds: int, _: Position) -> None:
        if folds == 2:
            await generations_of(log).drop(0, 2)

    with pytest.raises(GenerationGone, match="Start the replay again"):
        await follow(log, drop)


async def test_a_live_view_of_another_log_or_past_its_end_ends_it(log: FoldedLog) -> None:
    await log.fold()
    for field, value, why in (("offset", 9_999, "it was shortened"), ("log", "recreated", "it was recreated")):
        await log.valkey.call("HSET", log.key("g1:position"), field, value)
        with pytest.raises(LogChanged, match=why):
            await follow(log)
