"""Generations of views: whenever one is begun, however it is cut, raced, lost and swapped, it holds what the live
one holds, and the live one never waits for it."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from libs.contracts.codec import vote_codec
from libs.contracts.log_records import Behind, LogRecord, Position
from libs.contracts.purchase_events import PurchasesEvent
from libs.contracts.topics import catalogue_topic, purchases_topic, votes_topic
from libs.projection.generation_expiry import Assigned, GenerationExpiry
from libs.projection.votes_projection import VotesProjection
from libs.tally.errors import ViewsUnavailable
from libs.tally.events import Event, LogCreated, VoteCast
from libs.views import catalogue_views, purchase_views
from libs.views.catalogue_views import CatalogueViews
from libs.views.client import ValkeyClient
from libs.views.functions import load_functions, open_valkey
from libs.views.generation_swap import ANOTHER_IS_KEPT, Swap
from libs.views.generations import GenerationGone, Generations, Moving, State
from libs.views.key_scan import GenerationKey
from libs.views.purchase_views import PurchaseViews
from libs.views.serialization import pack
from libs.views.vote_views import VoteViews
from tests.libs.views import test_catalogue_fold, test_purchases_fold
from tests.libs.views.catalogue_model import Model
from tests.libs.views.random_logs import folded, logs
from tests.libs.views.simulation.comparison import Table, described, described_view, differing
from tests.support.builders import a_cast
from tests.support.eventually import eventually
from tests.support.hypothesis_examples import examples
from tests.support.purchases_log import NOW_US, a_purchase, purchase_key

LOG = test_catalogue_fold.LOG
CONTESTS = {"one", "two:é", "contest"}
LAZY = ("due", "outcomes", "outcome_times")
PROPERTY = settings(deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
async def valkey(servers: Any) -> AsyncIterator[ValkeyClient]:
    connection = open_valkey(servers.addresses.valkey)
    await load_functions(connection)
    yield connection
    await connection.close()


class Keys(NamedTuple):
    """All keys of one partition."""

    valkey: ValkeyClient
    base: str

    async def names(self) -> list[bytes]:
        found: list[bytes] = await self.valkey.call("KEYS", f"{self.base.replace('{', '[{]')}:*")
        return found

    async def copy(self) -> dict[bytes, bytes]:
        return {name: await self.valkey.call("DUMP", name) for name in await self.names()}

    async def restore(self, copy: dict[bytes, bytes]) -> None:
        """A Valkey that lost its last writes."""
        await self.forget()
        for name, dumped in copy.items():
            await self.valkey.call("RESTORE", name, 0, dumped)

    async def forget(self) -> None:
        if names := await self.names():
            await self.valkey.call("DEL", *names)

    async def held(self, number: int) -> dict[str, Any]:
        """Return a generation's contents by the name of the key, without what is deleted lazily."""
        prefix, found = f"{self.base}:g{number}:", dict[str, Any]()
        for key in await self.names():
            name = key.decode().removeprefix(prefix)
            if key.decode().startswith(prefix) and name.partition(":")[0] not in LAZY:
                kind = (await self.valkey.call("TYPE", key)).decode()
                read = {"hash": ("HGETALL",), "set": ("SMEMBERS",), "zset": ("ZRANGE", 0, -1, "WITHSCORES")}[kind]
                flat = await self.valkey.call(read[0], key, *read[1:])
                found[name] = sorted(flat) if kind == "set" else flat
        return found


class Votes:
    """A votes log of one partition, the views that it is folded into, and who folds it again."""

    def __init__(self, valkey: ValkeyClient, log: Sequence[LogRecord], number: int = 2) -> None:
        self.log = log
        self.number = number
        self.namespace = f"t{uuid.uuid4().hex}"
        topic = votes_topic(self.namespace, 1)
        self.generations = Generations(valkey, self.namespace, "votes", topic)
        self.views = VoteViews(valkey, self.namespace, 1)
        self.keys = Keys(valkey, self.generations.base(0))
        self.live = VotesProjection(topic, self.views, None)
        self.other = VotesProjection(topic, VoteViews(valkey, self.namespace, 1, generation=number), None)

    async def step(self, projection: VotesProjection, size: int, at: Position | None = None) -> None:
        """Fold the next records, from where the view stands, or stood `at` some earlier time."""
        start = at or await projection.position(0) or Position("log", 0)
        batch = [record for record in self.log if record.offset >= start.offset][:size]
        if batch:
            await projection.fold(0, start, batch)

    async def to_the_end(self, projection: VotesProjection) -> None:
        await self.step(projection, len(self.log))

    async def follow(self) -> State:
        """As a replay does: to the end of the log, and see."""
        await self.to_the_end(self.other)
        position = await self.other.position(0)
        assert position is not None
        return await self.generations.touch(0, self.number, position)

    async def rebuild(self) -> None:
        """Every step of a replay, whichever of them were taken before."""
        opened = await self.generations.open(0, self.number)
        if not opened:
            assert (await self.generations.read(0)).live.number == self.number
            return
        await self.to_the_end(self.live)
        assert await self.follow() is State.FOLLOWING
        assert await self.generations.swap(0, self.number) == Swap(True)

    async def seen(self, number: int) -> Table:
        views = VoteViews(self.keys.valkey, self.namespace, 1, generation=number)
        return await described_view(views, 0, CONTESTS)


def a_votes_log(*events: Event, first: int = 0) -> list[LogRecord]:
    known = [] if first else [LogCreated("log")]
    return [
        LogRecord(offset, 1_000 + offset, vote_codec.encode(event))
        for offset, event in enumerate([*known, *events], first)
    ]


def casts(count: int, first: int = 0, **members: Any) -> list[VoteCast]:
    return [a_cast("abc"[n % 3], voter=f"voter {n}", **members) for n in range(first, first + count)]


sizes = st.sampled_from([1, 2, 7, 50, 130, 300])


@settings(PROPERTY, max_examples=examples(60))
@given(log=logs, data=st.data())
async def test_a_generation_begun_at_any_moment_and_folded_anyhow_beside_the_live_one_holds_the_same(
    valkey: ValkeyClient, log: list[LogRecord], data: st.DataObject
) -> None:
    votes = Votes(valkey, log)
    opens_at = data.draw(st.integers(0, 6))
    for step in range(data.draw(st.integers(4, 16))):
        if step == opens_at:
            await votes.generations.open(0, 2)
        before = await votes.other.position(0)
        match (
            data.draw(st.sampled_from(["live", "live", "other", "other", "race"])) if step >= opens_at else "live"
        ):
            case "live":
                await votes.step(votes.live, data.draw(sizes))
            case "other":
                await votes.step(votes.other, data.draw(sizes))
            case "race":
                # the replay has fetched what, once it follows, the projector folds into both
                await votes.step(votes.live, data.draw(sizes))
                with suppress(Behind):
                    await votes.step(votes.other, data.draw(sizes), before)
    await votes.generations.open(0, 2)
    await votes.to_the_end(votes.live)
    assert await votes.follow() is State.FOLLOWING
    expected = described(folded(log))
    for number in (1, 2):
        assert not differing(await votes.seen(number), expected)
    await votes.keys.forget()


@settings(PROPERTY, max_examples=examples(40))
@given(log=logs, seed=st.integers(0, 2**32))
async def test_swapped_and_rolled_back_while_votes_come_in_both_stay_the_fold_of_the_log(
    valkey: ValkeyClient, log: list[LogRecord], seed: int
) -> None:
    votes, rng = Votes(valkey, log), Random(seed)
    await votes.step(votes.live, rng.choice([1, 9, 100]))
    await votes.generations.open(0, 2)
    wanted, swaps = 2, 0
    while (await votes.live.position(0) or Position("log", 0)).offset <= log[-1].offset:
        folding = [votes.live, votes.live, *([] if swaps else [votes.other])]
        await votes.step(rng.choice(folding), rng.choice([2, 20, 60]))
        if rng.random() < 0.5 and (await votes.generations.swap(0, wanted)).done:
            wanted, swaps = 3 - wanted, swaps + 1
    found = await votes.generations.read(0)
    assert (found.live.number, found.swaps) == (3 - wanted, swaps)
    expected = described(folded(log))
    for number in (1, 2) if swaps else (1,):
        assert not differing(await votes.seen(number), expected)
    await votes.keys.forget()


@settings(PROPERTY, max_examples=examples(60))
@given(log=logs, seed=st.integers(0, 2**32))
async def test_whatever_valkey_loses_between_any_two_steps_a_replay_taken_up_again_ends_right(
    valkey: ValkeyClient, log: list[LogRecord], seed: int
) -> None:
    votes, rng = Votes(valkey, log), Random(seed)
    copies = [await votes.keys.copy()]

    async def some_step() -> None:
        match rng.choice(["live", "live", "other", "other", "open", "touch", "swap", "drop", "sweep"]):
            case "live":
                await votes.step(votes.live, rng.choice([5, 60, 200]))
            case "other":
                await votes.step(votes.other, rng.choice([5, 60, 200]))
            case "open":
                await votes.generations.open(0, 2)
            case "touch":
                await votes.generations.touch(0, 2, await votes.other.position(0) or Position("log", 0))
            case "swap":
                await votes.generations.swap(0, 2)
            case "drop":
                await votes.generations.drop(0, 1)
            case "sweep":
                await votes.generations.sweep()

    for _ in range(25):
        with suppress(Behind, GenerationGone):
            await some_step()
        if rng.random() < 0.4:
            copies.append(await votes.keys.copy())
        if rng.random() < 0.2:
            await votes.keys.restore(rng.choice(copies[-4:]))
    await votes.rebuild()
    await votes.to_the_end(votes.live)
    assert (await votes.generations.read(0)).live.number == 2
    assert not differing(await votes.seen(2), described(folded(log)))
    await votes.generations.drop(0, 1)
    await votes.generations.sweep()
    assert not await votes.keys.held(1)
    assert not await votes.generations.open(0, 1), "the number of the live one's forerunner is given again"
    await votes.keys.forget()


async def test_no_swap_before_it_follows_at_the_very_position_of_the_live_one(valkey: ValkeyClient) -> None:
    votes = Votes(valkey, a_votes_log(*casts(20)))
    await votes.step(votes.live, 10)
    assert await votes.generations.swap(0, 2) == Swap(False, "gone")
    await votes.generations.open(0, 2)
    await votes.step(votes.other, 5)
    assert await votes.generations.swap(0, 2) == Swap(False, "building")
    assert await votes.follow() is State.FOLLOWING
    assert await votes.generations.swap(0, 2) == Swap(False, "moving")
    await votes.to_the_end(votes.live)
    assert await votes.generations.swap(0, 2) == Swap(True)
    assert await votes.generations.swap(0, 2) == Swap(True)
    assert (await votes.generations.read(0)).swaps == 1


async def a_swapped_one(valkey: ValkeyClient) -> Votes:
    """Of which generation 2 is read, and 1 is kept."""
    votes = Votes(valkey, a_votes_log(*casts(20)))
    await votes.to_the_end(votes.live)
    await votes.rebuild()
    assert (await votes.generations.read(0)).others[1].state is State.KEPT
    return votes


async def swapped_in(votes: Votes, number: int) -> Swap:
    """Another one, folded from the beginning."""
    assert await votes.generations.open(0, number)
    views = VoteViews(votes.keys.valkey, votes.namespace, 1, generation=number)
    await votes.to_the_end(VotesProjection(votes.live.topic, views, None))
    await votes.generations.touch(0, number, Position("log", len(votes.log)))
    return await votes.generations.swap(0, number)


async def test_one_former_generation_is_kept_and_the_next_swap_gives_it_up(valkey: ValkeyClient) -> None:
    votes = await a_swapped_one(valkey)
    assert await swapped_in(votes, 3) == Swap(True)
    found = await votes.generations.read(0)
    assert (found.live.number, {one.number: one.state for one in found.others.values()}) == (3, {2: State.KEPT})
    assert await votes.generations.hold(0, 2, until_dropped=True)
    assert await swapped_in(votes, 4) == Swap(False, ANOTHER_IS_KEPT)
    await votes.generations.drop(0, 2)
    assert await votes.generations.swap(0, 4) == Swap(True)
    assert not await votes.generations.hold(0, 2)


async def test_a_kept_generation_is_dropped_when_its_time_is_over_and_not_before(valkey: ValkeyClient) -> None:
    votes = await a_swapped_one(valkey)
    generations = votes.generations
    kept = (await generations.read(0)).others[1]
    assert kept.kept_since is not None
    assert await generations.expire(0, 3_600) == []
    await generations.hold(0, 1, until_dropped=True)
    assert (await generations.read(0)).others[1].held
    assert await generations.expire(0, 0) == []
    await generations.hold(0, 1, until_dropped=False)
    assert (await generations.swap(0, 1)).done
    assert await generations.expire(0, 0) == [2], "what is read was dropped, or what is kept was not"
    assert (await generations.read(0)).live.number == 1
    assert (await generations.swap(0, 2)) == Swap(False, "gone")
    await generations.sweep()
    assert not await votes.keys.held(2)


async def test_the_time_of_a_kept_generation_begins_anew_when_it_is_asked_for(valkey: ValkeyClient) -> None:
    """So a rollback that holds all partitions first finds all of them there."""
    votes = await a_swapped_one(valkey)
    key, now = f"{votes.keys.base}:generations", int((await valkey.call("TIME"))[0])
    schema = (await votes.generations.read(0)).schema
    await valkey.call("HSET", key, "1", pack(["kept", "", schema, 0, now - 1_000, 0]))
    assert (await votes.generations.read(0)).others[1].kept_since == now - 1_000
    assert await votes.generations.hold(0, 1)
    assert await votes.generations.expire(0, 900) == []
    assert (await votes.generations.swap(0, 1)).done


async def test_a_projector_drops_what_was_kept_long_enough(valkey: ValkeyClient) -> None:
    votes = await a_swapped_one(valkey)
    others = await a_swapped_one(valkey)
    await others.generations.hold(0, 1, until_dropped=True)
    folds: list[tuple[Generations, Assigned]] = [(one.generations, lambda: [0]) for one in (votes, others)]
    keeping = asyncio.create_task(GenerationExpiry(folds, keep_s=1, poll_s=0.05).run())
    assert await votes.keys.held(1)
    await eventually(lambda: is_gone(votes))
    keeping.cancel()
    assert (await others.generations.read(0)).others[1].held
    assert await others.keys.held(1)


async def is_gone(votes: Votes) -> bool:
    return not (await votes.generations.read(0)).others and not await votes.generations.names({1})


async def test_a_generation_to_be_looked_at_is_never_read(valkey: ValkeyClient) -> None:
    votes = Votes(valkey, a_votes_log(*casts(9)))
    await votes.to_the_end(votes.live)
    await votes.generations.open(0, 2, side=True)
    assert await votes.follow() is State.SIDE
    assert await votes.generations.swap(0, 2) == Swap(False, "side")
    assert not await votes.generations.open(0, 2), "the number was given to a side generation"


async def test_a_generation_that_cannot_be_folded_breaks_alone(valkey: ValkeyClient) -> None:
    votes = Votes(valkey, a_votes_log(*casts(30)))
    await votes.step(votes.live, 10)
    await votes.generations.open(0, 2)
    await votes.step(votes.other, 10)
    await votes.step(votes.other, 10)
    await valkey.call("SET", f"{votes.keys.base}:g2:voters:contest", "no hash")
    await votes.to_the_end(votes.live)
    found = await votes.generations.read(0)
    assert found.others[2].state is State.BROKEN
    assert found.live.position == Position("log", 31)
    assert await votes.generations.swap(0, 2) == Swap(False, "broken")
    with pytest.raises(GenerationGone, match="Start the replay again"):
        await votes.follow()
    again = Votes(valkey, votes.log, 3)
    again.namespace, again.generations = votes.namespace, votes.generations
    again.other = VotesProjection(votes.live.topic, VoteViews(valkey, votes.namespace, 1, generation=3), None)
    again.live = votes.live
    await again.rebuild()
    assert (await votes.generations.read(0)).live.number == 3


async def test_a_number_is_never_given_twice(valkey: ValkeyClient) -> None:
    votes = Votes(valkey, a_votes_log(*casts(5)))
    await votes.to_the_end(votes.live)
    await votes.generations.open(0, 4)
    await votes.generations.drop(0, 4)
    await votes.generations.sweep()
    assert [await votes.generations.open(0, number) for number in (1, 2, 4, 5)] == [False, False, False, True]
    await votes.generations.drop(0, 1)
    assert (await votes.generations.read(0)).live.number == 1, "the live one was dropped"


async def test_sweeping_leaves_what_is_opened_meanwhile(
    valkey: ValkeyClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    votes = Votes(valkey, a_votes_log(*casts(5)))
    await votes.to_the_end(votes.live)
    read_all, keys_of = votes.generations.read_all, votes.generations._keys

    async def begun_between() -> None:
        await votes.generations.open(0, 2)
        await votes.to_the_end(votes.other)

    async def read_then_begin() -> Any:
        found = await read_all()
        await begun_between()
        return found

    async def walk_then_begin() -> AsyncIterator[GenerationKey]:
        async for key in keys_of():
            yield key
        await begun_between()

    monkeypatch.setattr(votes.generations, "read_all", read_then_begin)
    monkeypatch.setattr(votes.generations, "_keys", walk_then_begin)
    assert await votes.generations.sweep() == 0
    assert await votes.keys.held(2) == await votes.keys.held(1)


async def test_one_contest_changes_places_and_back_and_the_others_stay(valkey: ValkeyClient) -> None:
    log = a_votes_log(*casts(30), *casts(12, contest="one"))
    votes = Votes(valkey, log)
    await votes.step(votes.live, 35)
    counts = f"{votes.keys.base}:g1:counts:"
    for contest in ("one", "contest"):
        await valkey.call("HSET", counts + contest, "a", await valkey.call("HGET", counts + contest, "b"))
    spoilt = await votes.seen(1)
    await votes.generations.open(0, 2, "one")
    await votes.step(votes.other, 35)
    assert await votes.generations.swap(0, 2) == Swap(True)
    swapped = await votes.seen(1)
    assert {cell[1] for cell in spoilt if spoilt[cell] != swapped.get(cell)} == {"one"}
    assert (await votes.generations.read(0)).others[2].read
    assert await votes.generations.swap(0, 2) == Swap(True)
    assert await votes.seen(1) == swapped, "the same swap again changed something"
    await votes.to_the_end(votes.live)
    right = described(folded(list(log)))
    of_one = {cell: value for cell, value in right.items() if "one" in cell}
    assert {cell: value for cell, value in (await votes.seen(1)).items() if "one" in cell} == of_one
    assert await votes.generations.swap(0, 2, read=False) == Swap(True)
    assert await votes.generations.swap(0, 2, read=False) == Swap(True)
    back = await votes.seen(1)
    assert back["figures", "one", "a", ""] != right["figures", "one", "a", ""]
    assert back["last", "one"] == right["last", "one"], "what was read before is folded on"
    assert {cell: value for cell, value in (await votes.seen(2)).items() if "one" in cell} == of_one


async def test_readers_hear_of_a_swap_though_no_vote_has_come(valkey: ValkeyClient) -> None:
    votes = Votes(valkey, a_votes_log(*casts(9)))
    await votes.to_the_end(votes.live)
    counts = f"{votes.keys.base}:g1:counts:contest"
    await valkey.call("HSET", counts, "a", await valkey.call("HGET", counts, "b"))
    known = await votes.views.counts(0, "contest")
    assert await votes.views.counts(0, "contest", known) is None
    await votes.rebuild()
    assert (await votes.views.counts(0, "contest", known)) != known


async def test_views_of_another_layout_are_neither_read_nor_folded_until_a_replay_has_made_new_ones(
    valkey: ValkeyClient,
) -> None:
    votes = Votes(valkey, a_votes_log(*casts(30)))
    await votes.step(votes.live, 10)
    await votes.generations.open(0, 2)
    await votes.step(votes.other, 10)
    await valkey.call("HSET", f"{votes.keys.base}:generations", "schema", 70)
    for refused in (votes.views.state(0), votes.views.counts(0, "contest")):
        with pytest.raises(ViewsUnavailable, match=r"schema 70, this code reads .*`tally replay` rebuilds them"):
            await refused
    with pytest.raises(ViewsUnavailable, match="rebuilds them"):
        await votes.views.apply(0, Position("log", 10), [], 11)
    assert await votes.follow() is State.FOLLOWING
    assert await votes.generations.swap(0, 2) == Swap(True), "what is stuck was waited for"
    assert (await votes.views.state(0)).position == Position("log", 31)
    assert not differing(await votes.seen(2), described(folded(list(votes.log))))
    found = await votes.generations.read(0)
    assert found.others[1].state is State.BROKEN
    assert await votes.generations.swap(0, 1) == Swap(False, "broken")


async def test_a_contest_is_not_exchanged_between_layouts(valkey: ValkeyClient) -> None:
    votes = Votes(valkey, a_votes_log(*casts(5)))
    await votes.to_the_end(votes.live)
    await votes.generations.open(0, 2, "contest")
    assert await votes.follow() is State.FOLLOWING
    await valkey.call("HSET", f"{votes.keys.base}:generations", "schema", 70)
    assert await votes.generations.swap(0, 2) == Swap(False, "of another layout than the live one")


async def test_what_follows_is_folded_no_further_by_code_of_another_layout(valkey: ValkeyClient) -> None:
    votes = Votes(valkey, a_votes_log(*casts(20)))
    await votes.step(votes.live, 10)
    await votes.rebuild()
    await valkey.call("HSET", f"{votes.keys.base}:generations", "1", pack(["kept", "", 70, 0]))
    await votes.to_the_end(votes.live)
    assert (await votes.generations.read(0)).others[1].state is State.BROKEN
    assert await votes.generations.swap(0, 1) == Swap(False, "broken")


async def test_an_emptied_live_view_holds_no_replay_up(valkey: ValkeyClient) -> None:
    votes = Votes(valkey, a_votes_log(*casts(20)))
    await votes.generations.open(0, 2)
    assert await votes.follow() is State.FOLLOWING
    await votes.step(votes.live, 7)
    await votes.to_the_end(votes.live)
    assert await votes.generations.swap(0, 2) == Swap(True)
    assert not differing(await votes.seen(1), await votes.seen(2))


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

    async def _at(self, partition: int, number: int | None) -> int:
        position = await self.views[number].position(partition)
        return 0 if position is None else int(position.offset)


async def assert_rebuilt(raced: Raced, partition: int, entries: Sequence[Any], seed: int) -> None:
    """Both hold the same, before and after a swap, and `differences` says so."""
    rng, half = Random(seed), len(entries) // 2
    await raced.both(partition, entries[:half], rng)
    assert await raced.keys.held(2) == await raced.keys.held(1)
    assert await raced.generations.swap(partition, 2) == Swap(True)
    for start in range(half, len(entries), 5):
        cut = entries[start : start + 5]
        await raced.views[None].apply(partition, Position(LOG, start), cut, start + len(cut))
    assert await raced.keys.held(2) == await raced.keys.held(1)
    names = {name for name in (await raced.keys.held(2)) if name.partition(":")[0] not in LAZY}
    assert [one async for one in raced.generations.differences(partition, 1, names)] == []
    assert await raced.generations.swap(partition, 1) == Swap(True)


@settings(PROPERTY, max_examples=examples(25))
@given(steps=st.lists(test_catalogue_fold.step, min_size=10, max_size=50), seed=st.integers(0, 2**32))
async def test_a_catalogue_folded_anew_beside_the_live_one_holds_the_same(
    valkey: ValkeyClient, steps: list[dict[str, Any]], seed: int
) -> None:
    namespace, partition = f"t{uuid.uuid4().hex}", test_catalogue_fold.PARTITION
    model, time_ms = Model(), test_catalogue_fold.NOW_MS
    entries: list[catalogue_views.Entry] = [(LogRecord(0, time_ms, b""), LogCreated(LOG))]
    model.fold(0, time_ms, LogCreated(LOG))
    for offset, step in enumerate(steps, start=1):
        time_ms += step["after_ms"]
        event = test_catalogue_fold.event_of(step, model, offset, time_ms)
        model.fold(offset, time_ms, event)
        entries.append((LogRecord(offset, time_ms, b""), event))
    generations = Generations(valkey, namespace, "catalogue", catalogue_topic(namespace))
    views = {number: CatalogueViews(valkey, namespace, number) for number in (None, 2)}
    raced = Raced(views, generations, Keys(valkey, generations.base(partition)))
    await assert_rebuilt(raced, partition, entries, seed)
    await test_catalogue_fold.assert_equal(views[None], model)
    await raced.keys.forget()


@settings(PROPERTY, max_examples=examples(25))
@given(steps=st.lists(test_purchases_fold.step, min_size=10, max_size=40), seed=st.integers(0, 2**32))
async def test_purchases_folded_anew_beside_the_live_ones_are_the_same(
    valkey: ValkeyClient, steps: list[dict[str, Any]], seed: int
) -> None:
    namespace, time_ms = f"t{uuid.uuid4().hex}", test_purchases_fold.NOW_MS
    entries: list[purchase_views.Entry] = [(LogRecord(0, time_ms, b""), LogCreated(LOG))]
    for offset, step in enumerate(steps, start=1):
        time_ms += step["after_ms"]
        entries.append((LogRecord(offset, time_ms, b""), test_purchases_fold.event_of(step, time_ms)))
    topic = purchases_topic(namespace, 1)
    generations = Generations(valkey, namespace, "purchases", topic)
    views = {number: PurchaseViews(valkey, namespace, topic, number) for number in (None, 2)}
    raced = Raced(views, generations, Keys(valkey, generations.base(0)))
    await assert_rebuilt(raced, 0, entries, seed)
    await test_purchases_fold.assert_equal(views[None], entries)
    await raced.keys.forget()


async def test_each_part_that_two_generations_hold_otherwise_is_named(
    valkey: ValkeyClient, namespace: str
) -> None:
    topic = purchases_topic(namespace, 1)
    generations = Generations(valkey, namespace, "purchases", topic)
    bought: list[PurchasesEvent] = [LogCreated(LOG), *(a_purchase(name) for name in "xyz")]
    entries = [(LogRecord(offset, NOW_US // 1000, b""), event) for offset, event in enumerate(bought)]
    await generations.open(0, 2)
    for number in (None, 2):
        await PurchaseViews(valkey, namespace, topic, number).apply(0, Position(LOG, 0), entries, len(entries))
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
