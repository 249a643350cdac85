"""Generations of the catalogue and of purchases, raced by a projector and a replay."""

import uuid
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.contracts.log_records import Behind, LogRecord, Position
from libs.contracts.purchase_events import PurchasesEvent
from libs.contracts.topics import catalogue_topic, purchases_topic
from libs.tally.events import LogCreated
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.generations.generations import GenerationGone, Generations, Moving, State, Swap
from libs.views.purchases.purchase_views import PurchaseViews
from libs.views.valkey.client import ValkeyClient
from libs.views.valkey.function_libraries import pack
from tests.libs.views import test_catalogue_fold, test_purchases_fold
from tests.libs.views.generation_folds import LOG, NOT_OF_LOG, Keys
from tests.support.builders.purchases_log import NOW_US, a_purchase, purchase_key
from tests.support.hypothesis_examples import PROPERTY, examples


class Raced(NamedTuple):
    """A log of the catalogue or of purchases, decoded, folded by a projector and by a replay beside it."""

    views: dict[int | None, Any]
    generations: Generations
    keys: Keys

    async def both(self, partition: int, entries: Sequence[Any], rng: Random) -> None:
        """To the end, each by some entries at a time; the projector may overtake the replay meanwhile."""
        await self.generations.open(partition, 2)
        while min([await self._at(partition, number) for number in (None, 2)]) < len(entries):
            number = rng.choice([None, 2])
            start = await self._at(partition, number)
            if rng.random() < 0.3:
                await self._apply(partition, entries, None, await self._at(partition, None), rng)
            with suppress(Behind):
                await self._apply(partition, entries, number, start, rng)
        assert await self.generations.touch(partition, 2, Position(LOG, len(entries))) is State.FOLLOWING

    async def _apply(
        self, partition: int, entries: Sequence[Any], number: int | None, start: int, rng: Random
    ) -> None:
        cut = entries[start : start + rng.choice([1, 3, 12])]
        if cut:
            await self.views[number].apply(partition, Position(LOG, start), cut, start + len(cut))

    async def clean_up(self, partition: int) -> None:
        """Until nothing is left that the log does not determine."""
        while await self.views[None].clean_up(partition):
            pass

    async def _at(self, partition: int, number: int | None) -> int:
        position = await self.views[number].position(partition)
        return 0 if position is None else int(position.offset)


async def assert_rebuilt(raced: Raced, partition: int, entries: Sequence[Any], seed: int) -> None:
    """Both hold the same, before and after a swap, and `differences` says so."""
    rng, half = Random(seed), len(entries) // 2
    await raced.both(partition, entries[:half], rng)
    await raced.clean_up(partition)
    assert await raced.keys.held(2) == await raced.keys.held(1)
    assert await raced.generations.swap(partition, 2) == Swap(True)
    for start in range(half, len(entries), 5):
        cut = entries[start : start + 5]
        await raced.views[None].apply(partition, Position(LOG, start), cut, start + len(cut))
        if rng.random() < 0.3:
            await raced.views[None].clean_up(partition)
    await raced.clean_up(partition)
    assert await raced.keys.held(2) == await raced.keys.held(1)
    names = {name for name in (await raced.keys.held(2)) if name.partition(":")[0] not in NOT_OF_LOG}
    assert [one async for one in raced.generations.differences(partition, 1, names)] == []
    assert await raced.generations.swap(partition, 1) == Swap(True)


@settings(PROPERTY, max_examples=examples(25))
@given(steps=st.lists(test_catalogue_fold.step, min_size=10, max_size=50), seed=st.integers(0, 2**32))
async def test_a_catalogue_folded_again_beside_the_live_one_holds_the_same(
    valkey: ValkeyClient, steps: list[dict[str, Any]], seed: int
) -> None:
    namespace, partition = f"t{uuid.uuid4().hex}", test_catalogue_fold.PARTITION
    entries, model = test_catalogue_fold.logged(steps)
    generations = Generations(valkey, namespace, "catalogue", catalogue_topic(namespace))
    views = {number: CatalogueViews(valkey, namespace, number) for number in (None, 2)}
    raced = Raced(views, generations, Keys(valkey, generations.base(partition)))
    await assert_rebuilt(raced, partition, entries, seed)
    await test_catalogue_fold.assert_equal(views[None], model)
    await raced.keys.forget()


@settings(PROPERTY, max_examples=examples(25))
@given(steps=st.lists(test_purchases_fold.step, min_size=10, max_size=40), seed=st.integers(0, 2**32))
async def test_purchases_folded_again_beside_the_live_ones_are_the_same(
    valkey: ValkeyClient, steps: list[dict[str, Any]], seed: int
) -> None:
    namespace, entries = f"t{uuid.uuid4().hex}", test_purchases_fold.logged(steps)
    topic = purchases_topic(namespace, 1)
    generations = Generations(valkey, namespace, "purchases", topic)
    views = {number: PurchaseViews(valkey, namespace, topic, number) for number in (None, 2)}
    raced = Raced(views, generations, Keys(valkey, generations.base(0)))
    await assert_rebuilt(raced, 0, entries, seed)
    await test_purchases_fold.assert_equal(views[None], entries)
    await raced.keys.forget()


def bought(names: str) -> list[Any]:
    """Return a log of these purchases, decoded."""
    events: list[PurchasesEvent] = [LogCreated(LOG), *map(a_purchase, names)]
    return [(LogRecord(offset, NOW_US // 1000, b""), event) for offset, event in enumerate(events)]


async def folded_twice(
    valkey: ValkeyClient, namespace: str, entries: Sequence[Any]
) -> tuple[Generations, PurchaseViews]:
    """Fold the entries into the live generation and into another; return these, and the live views."""
    topic = purchases_topic(namespace, 1)
    generations, live = Generations(valkey, namespace, "purchases", topic), PurchaseViews(valkey, namespace, topic)
    await generations.open(0, 2)
    for views in (live, PurchaseViews(valkey, namespace, topic, 2)):
        await views.apply(0, Position(LOG, 0), entries, len(entries))
    return generations, live


async def test_a_replay_ends_if_another_version_has_opened_its_generation(
    valkey: ValkeyClient, namespace: str
) -> None:
    topic = purchases_topic(namespace, 1)
    generations, entries = Generations(valkey, namespace, "purchases", topic), bought("x")
    await valkey.call("HSET", f"{generations.base(0)}:generations", "last", 2, "2", pack(["building", 1, 0]))
    assert not await generations.open(0, 2)
    with pytest.raises(GenerationGone):
        await PurchaseViews(valkey, namespace, topic, 2).apply(0, Position(LOG, 0), entries, len(entries))


async def test_wrong_stored_values_break_only_the_generation_that_has_them(
    valkey: ValkeyClient, namespace: str
) -> None:
    entries = bought("xyz")
    generations, live = await folded_twice(valkey, namespace, entries[:2])
    assert await generations.touch(0, 2, Position(LOG, 2)) is State.FOLLOWING
    await valkey.call("HSET", f"{generations.base(0)}:g2:position", "clock", "yesterday")
    await live.apply(0, Position(LOG, 2), entries[2:], 4)
    found = await generations.read(0)
    assert (found.others[2].state, found.live.position) == (State.BROKEN, Position(LOG, 4))


async def test_each_part_that_two_generations_hold_otherwise_is_named(
    valkey: ValkeyClient, namespace: str
) -> None:
    generations, _ = await folded_twice(valkey, namespace, bought("xyz"))
    records, todo = "records:a1", "todo"
    base, (x, y, z) = generations.base(0), map(purchase_key, "xyz")
    await valkey.call("HDEL", f"{base}:g1:{records}", x)
    await valkey.call("HSET", f"{base}:g2:{records}", y, "changed", "more", "new")
    await valkey.call("ZADD", f"{base}:g2:{todo}", 77, f"a1\0{z}")
    found = [one async for one in generations.differences(0, 2, [records, todo])]
    assert {(one.key, one.field, bool(one.live), bool(one.other)) for one in found} == {
        (records, x, False, True),
        (records, y, True, True),
        (records, "more", False, True),
        (todo, f"a1\0{z}", True, True),
    }
    await valkey.call("HINCRBY", f"{base}:g2:position", "offset", -1)
    with pytest.raises(Moving):
        _ = [one async for one in generations.differences(0, 2, [records])]
