"""No call of a Valkey function does more when more is stored: Valkey runs one at a time, so a long one delays all.

Each scenario stores `size` of everything that can be many, and makes every call that can meet it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import pytest

from libs.contracts.catalogue_events import (
    CatalogueEvent,
    KeyIssued,
    KeyRevoked,
    RecordChanged,
    RecordCreated,
    RecordDeleted,
)
from libs.contracts.log_records import LogRecord, Position
from libs.contracts.purchase_events import PurchaseCast, PurchaseRefused
from libs.contracts.topics import catalogue_topic, purchases_topic
from libs.tally.events import LogCreated
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.generations.generations import Generations
from libs.views.purchases.purchase_views import PurchaseViews
from libs.views.valkey.function_libraries import libraries
from tests.libs.views.many_votes import votes
from tests.libs.views.measured import Measured, library_of, measured
from tests.support.builders.purchases_log import NOW_US, a_purchase, purchase_key
from tests.support.servers.freshness import make_fresh

SMALL, LARGE = 530, 1_060
"""More than a page of anything, and twice as much."""
ROOM, GROWTH = 60, 1.3
"""Pages of a scan are of about a size, and numbers have more digits: this much more is no growth."""
MOST_WORK = 20_000
"""Work that takes Valkey about 2 ms."""
NOW_MS: Final = NOW_US // 1000
ACCOUNT = "account"


async def catalogue(valkey: Measured, namespace: str, size: int) -> None:
    partition = catalogue_topic(namespace).partition_of(ACCOUNT)
    views = CatalogueViews(valkey, namespace)
    entries: list[Any] = []
    folded = 0

    def add(kind: type[CatalogueEvent], **members: Any) -> None:
        offset = len(entries)
        who = {"account": ACCOUNT, "at": NOW_US, "command_id": f"command {offset}", "content": "c"}
        entries.append((LogRecord(offset, NOW_MS, b""), kind(**{**who, **members})))

    async def fold(at_once: int = 32) -> None:
        nonlocal folded
        while folded < len(entries):
            batch = entries[folded : folded + at_once]
            await views.apply(partition, Position("log", folded), batch, folded + len(batch))
            folded += len(batch)

    entries.append((LogRecord(0, NOW_MS, b""), LogCreated("log")))
    image = {"refs": (("images", "image"),)}
    new: Any = partial(add, RecordCreated, record="{}")
    new(resource="images", key="image")
    new(resource="contests", key="contest", contest="contest", due=1)
    of_contest = {"parent": ("contests", "contest"), "contest": "contest"}
    for at in range(size):
        new(resource="participants", key=f"p{at}", sort_key=f"k{at}", **of_contest, **image)
        new(resource="contests", key=f"c{at}", contest=f"c{at}", due=1, **image)
        add(KeyIssued, key_id=f"key {at}", sha256="00", permissions=("x",))
    for at in range(100):
        new(resource="vote_sources", key=f"s{at}", **of_contest)
    await fold()
    await make_fresh(views.fresh, partition)
    valkey.worst.clear()

    await views.position(partition)
    await views.live.marks((partition,))
    await views.mark(partition)
    await views.get(ACCOUNT, "participants", "p7")
    await views.contest_config(ACCOUNT, "contest")
    for order in ("created", "updated", "running_number", "sort_key"):
        await views.page(ACCOUNT, "participants", parent="contest", order=order, limit=101)
    await views.records(ACCOUNT, "participants", [f"p{at}" for at in range(size)])
    await views.due(partition, 200)
    await views.settle(ACCOUNT, "c7", 1, None)
    await views.keys(partition, "")
    await views.outcomes(partition, [f"command {at}" for at in range(1, 101)])
    await views.fresh.read("owner", partition, "contests", "c7")
    assert await views.is_referred(ACCOUNT, "images", "image", ["contests", "participants"])
    version = len(entries)
    add(RecordDeleted, resource="images", key="image")
    new(resource="participants", key="last", **of_contest, **image)
    add(RecordChanged, resource="participants", key="last", record="{}", expected_version=version + 1)
    add(KeyRevoked, key_id="key 7")
    add(RecordDeleted, resource="contests", key="contest", contest="contest")
    new(resource="images", key="next")
    await fold(at_once=1)
    while await views.clean_up(partition):
        pass
    assert await views.get(ACCOUNT, "participants", "p7") is None
    generations = Generations(valkey, namespace, "catalogue", catalogue_topic(namespace))
    await rebuilt_generations(generations, partition, entries)


async def rebuilt_generations(generations: Generations, partition: int, entries: Sequence[Any]) -> None:
    """Every step of a replay but its batches, which are as large as those of the live view."""
    valkey = generations.valkey
    assert isinstance(valkey, Measured)
    assert await generations.open(partition, 2)
    kept = dict(valkey.worst)
    views: Any = (
        CatalogueViews(valkey, generations.namespace, 2)
        if generations.prefix == "catalogue"
        else PurchaseViews(valkey, generations.namespace, generations.topic.topics[0], 2)
    )
    for at in range(0, len(entries), 32):
        batch = entries[at : at + 32]
        await views.apply(partition, Position("log", at), batch, at + len(batch))
    name = f"{generations.prefix}_fold"
    valkey.worst[name] = kept.get(name, 0)
    await generations.touch(partition, 2, Position("log", len(entries)))
    for held in (await generations.names({2}))[partition]:
        async for _ in generations.differences(partition, 2, [held]):
            pass
    assert (await generations.swap(partition, 2)).done
    assert (await generations.read(partition)).live.number == 2
    await generations.renew(partition, 1)
    await generations.expire(partition, 3_600)
    await generations.drop(partition, 1)
    assert await generations._call("unlink", partition, 1, "position") == 1
    assert await generations.witness(partition) is not None
    assert await generations.begin_again(partition, Position("log", len(entries)), len(entries) - 1)
    await generations.set_told(partition, 2)


async def purchases(valkey: Measured, namespace: str, size: int) -> None:
    topic = purchases_topic(namespace, 1)
    views, entries = PurchaseViews(valkey, namespace, topic), []
    events: list[Any] = [LogCreated("log"), *(a_purchase(f"purchase {at}") for at in range(size))]
    for at in range(size):
        of: dict[str, Any] = {"account": "a1", "key": purchase_key(f"purchase {at}"), "at": NOW_US}
        if at < size // 2:
            events.append(PurchaseRefused(**of, code="limit", reason="over"))
        else:
            events.append(PurchaseCast(**of, accepted_at=NOW_US))
    entries = [(LogRecord(offset, NOW_MS, b""), event) for offset, event in enumerate(events)]
    for at in range(0, len(entries), 100):
        batch = entries[at : at + 100]
        await views.apply(0, Position("log", at), batch, at + len(batch))
    await make_fresh(views.fresh)
    valkey.worst.clear()
    await views.position(0)
    await views.live.marks((0,))
    await views.with_open([0])
    await views.with_bought([0])
    await views.get("a1", purchase_key("purchase 1"))
    await views.of_user("a1", "u1", None, 200)
    await views.refused("a1", None, 200)
    await views.todo(0, -1, 64)
    for choice in await views.choices(0):
        await views.keys_of(0, choice.choice, "cast", 64)
    entries.append((LogRecord(len(entries), NOW_MS, b""), a_purchase("last")))
    await views.apply(0, Position("log", len(entries) - 1), entries[-1:], len(entries))
    await rebuilt_generations(Generations(valkey, namespace, "purchases", topic), 0, entries)


SCENARIOS = {"votes": votes, "catalogue": catalogue, "purchases": purchases}
FRESHNESS = re.compile(r"_(fresh|freshness|declare_fresh|uses|noted_changes)$")


@pytest.mark.parametrize("library", SCENARIOS)
async def test_no_call_does_more_however_much_is_stored(library: str, valkey_address: str, namespace: str) -> None:
    worst: list[dict[str, float]] = []
    for size in (SMALL, LARGE):
        with measured(valkey_address, f"m{namespace}{size}_") as valkey:
            its = f"{namespace}{size}"
            await SCENARIOS[library](valkey, its, size)
            names = {name for name in valkey.functions() if library_of(name) == library}
            missing = {name for name in names if not FRESHNESS.search(name)} - valkey.worst.keys()
            assert not missing, "a function has no call in the scenario"
            worst.append(dict(valkey.worst))
            await valkey.forget(its)
    small, large = worst
    assert {name: (work, large[name]) for name, work in small.items() if large[name] > work * GROWTH + ROOM} == {}
    assert {name: work for name, work in large.items() if work > MOST_WORK} == {}


def test_no_key_is_deleted_while_the_others_wait() -> None:
    """UNLINK frees a large value in the background, DEL at once."""
    for library in libraries():
        assert "'DEL'" not in library.source, library.name
