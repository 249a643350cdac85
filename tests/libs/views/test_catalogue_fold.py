"""The catalogue's Lua fold equals the plain one, however the log is cut, doubled, or begun again."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from libs.contracts.catalogue import (
    CatalogueEvent,
    ContestClosing,
    KeyIssued,
    KeyRevoked,
    RecordChanged,
    RecordCreated,
    RecordDeleted,
)
from libs.contracts.codec import Undecodable
from libs.contracts.log import Behind, LogRecord, Position
from libs.contracts.topics import catalogue_topic
from libs.tally.events import LogCreated
from libs.views.catalogue import CatalogueViews
from libs.views.client import Coalescer
from libs.views.functions import load_functions, open_valkey
from tests.libs.views.catalogue_model import DAY_MS, PARENTS, Model

PARTITION = 2
ACCOUNTS = [
    name for name in map("account{}".format, range(40)) if catalogue_topic("x").partition_of(name) == PARTITION
][:2]
TOPS = ["contests", "conventions"]
KEYS = ["a", "b", "c"]
COMMANDS = [f"command{number}" for number in range(60)]
LOG = "the-log"
NOW_MS = 1_790_000_000_000
LATER = 2**52

DOINGS = ["close", "close", "issue", "revoke", "poison"]

step = st.fixed_dictionaries(
    {
        "do": st.sampled_from(["create"] * 6 + ["change"] * 4 + ["delete"] * 3 + DOINGS),
        "account": st.sampled_from([ACCOUNTS[0], ACCOUNTS[0], ACCOUNTS[0], ACCOUNTS[1]]),
        "resource": st.sampled_from([*TOPS, *PARENTS]),
        "key": st.sampled_from(KEYS),
        "pick": st.integers(0, 1000),
        "sensible": st.sampled_from([True, True, True, True, False]),
        "repeats": st.sampled_from([0, 0, 0, 0, 0, 1, 3]),
        "content": st.sampled_from(["", "content"]),
        "refs": st.integers(0, 2),
        "offers": st.lists(st.sampled_from(["1", "2"]), max_size=2, unique=True),
        "due": st.sampled_from([None, 0, NOW_MS * 1000, LATER]),
        "after_ms": st.sampled_from([0, 0, 0, 1, 7, -5, DAY_MS // 2, DAY_MS]),
        "skew_us": st.sampled_from([0, -3_000_000, 5_000_000]),
    }
)


def event_of(step: dict[str, Any], model: Model, offset: int, time_ms: int) -> CatalogueEvent | Undecodable:
    """Mostly about what is there, so that deep states are reached; sometimes about anything."""
    account, pick, sensible = step["account"], step["pick"], step["sensible"]
    there = [(resource, key) for owner, resource, key in model.records if owner == account]
    who: dict[str, Any] = {
        "account": account,
        "command_id": COMMANDS[max(0, offset - step["repeats"])],
        "at": time_ms * 1000 + step["skew_us"],
        "content": step["content"],
    }
    resource, key = step["resource"], step["key"]
    if step["do"] in ("change", "delete") and sensible and there:
        resource, key = there[pick % len(there)]
    above = [key for kind, key in there if kind == PARENTS.get(resource)] if sensible else []
    parent = above[pick % len(above)] if above else KEYS[pick % 3]
    held = model.records.get((account, resource, key))
    if held is not None and held.parent is not None:
        parent = held.parent[1]
    contest = key if resource == "contests" else parent if resource == "participants" else None
    offered = [offer for (owner, *_), held in model.records.items() if owner == account for offer in held.offers]
    targets = (
        [*there, *offered]
        if sensible
        else [("shops", "nothing"), *(("conventions/days", f"{key}/1") for key in KEYS)]
    )
    version = model.version((account, resource, key))
    written = {
        "resource": resource,
        "key": key,
        "record": f'{{"empty":[],"offset":"{offset}"}}',
        "parent": (PARENTS[resource], parent) if resource in PARENTS else None,
        "contest": contest,
        "refs": tuple(dict.fromkeys(targets[(pick + n) % len(targets)] for n in range(step["refs"]) if targets)),
        "offers": tuple(("conventions/days", f"{key}/{day}") for day in step["offers"])
        if resource == "conventions"
        else (),
        "due": step["due"],
    }
    match step["do"]:
        case "create":
            return RecordCreated(**who, **written)
        case "change":
            return RecordChanged(**who, **written, expected_version=version if pick % 5 else version + 1)
        case "delete":
            expected = [None, None, version, max(0, version - 1)][pick % 4]
            above = model.version((account, *held.parent)) if held is not None and held.parent is not None else 7
            return RecordDeleted(
                **who,
                resource=resource,
                key=key,
                contest=contest,
                expected_version=expected,
                expected_parent=[None, None, above, max(0, above - 1)][pick // 4 % 4],
            )
        case "close":
            version = model.config.get(key, 0) - (pick % 4 == 0)
            return ContestClosing(**who, contest=key, record=f'{{"closing":{offset}}}', expected_config=version)
        case "issue":
            return KeyIssued(**who, key_id=key, sha256="00", permissions=("content:read",))
        case "revoke":
            return KeyRevoked(**who, key_id=key)
    return Undecodable("no event")


@pytest.fixture(scope="module")
async def valkey(servers: Any) -> AsyncIterator[Coalescer]:
    valkey = open_valkey(servers.addresses.valkey)
    await load_functions(valkey)
    yield valkey
    await valkey.close()


async def assert_equal(views: CatalogueViews, model: Model) -> None:
    assert await views.position(PARTITION) == Position(LOG, model.offset)
    for account in ACCOUNTS:
        for resource in [*TOPS, *PARENTS]:
            for key in KEYS:
                held = model.records.get((account, resource, key))
                assert await views.get(account, resource, key) == (held.stored if held else None)
            for parent in KEYS if resource in PARENTS else [""]:
                for order in ("created", "updated"):
                    listed = await views.page(account, resource, parent=parent, order=order, limit=10)
                    assert listed == model.list_of(account, resource, parent, order)
        for contest in KEYS:
            config = await views.contest_config(account, contest)
            held = model.records.get((account, "contests", contest))
            assert config.version == model.config.get(contest)
            assert config.contest == (held.stored if held else None)
            expected = model.list_of(account, "participants", contest, "created")[::-1] if held else []
            assert list(config.participants) == expected
    assert set(await views.due(PARTITION, 100)) == {name for name, due in model.due.items() if due != LATER}
    kept = await views.outcomes(PARTITION, COMMANDS)
    for command, outcome in zip(COMMANDS, kept, strict=True):
        remembered = model.outcome(command)
        if remembered is not None:
            assert outcome is not None
            assert (outcome.kind, outcome.offset, outcome.stored) == (
                remembered.kind,
                remembered.offset,
                remembered.stored,
            )
            assert set(outcome.refs) == set(remembered.refs)
    rows = (await views.keys(PARTITION, -2)).rows
    assert {row.key_id: row for row in rows or ()} == model.keys
    assert await views.quarantine(PARTITION) == model.quarantine


def cut(size: int, cuts: list[int]) -> Iterator[tuple[int, int]]:
    edges = sorted({0, size, *(c % size for c in cuts)})
    return pairwise(edges)


@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    steps=st.lists(step, min_size=25, max_size=50),
    cuts=st.lists(st.integers(0, 1000), max_size=6),
    again=st.lists(st.booleans(), min_size=8, max_size=8),
)
async def test_any_log_cut_anyhow_and_partly_folded_twice_gives_the_plain_fold(
    valkey: Coalescer, steps: list[dict[str, Any]], cuts: list[int], again: list[bool]
) -> None:
    model, views = Model(), CatalogueViews(valkey, f"t{uuid.uuid4().hex[:8]}")
    time_ms = NOW_MS
    entries: list[tuple[LogRecord, CatalogueEvent | Undecodable]] = [(LogRecord(0, time_ms, b""), LogCreated(LOG))]
    model.fold(0, time_ms, entries[0][1])
    for offset, one in enumerate(steps, start=1):
        time_ms += one["after_ms"]
        event = event_of(one, model, offset, time_ms)
        model.fold(offset, time_ms, event)
        entries.append((LogRecord(offset, time_ms, b""), event))
    for index, (first, after) in enumerate(cut(len(entries), cuts)):
        await views.apply(PARTITION, Position(LOG, first), entries[first:after], after)
        if again[index]:
            await views.apply(PARTITION, Position(LOG, first), entries[first:after], after)
    await assert_equal(views, model)


async def test_a_batch_from_elsewhere_is_refused_naming_the_position(valkey: Coalescer, namespace: str) -> None:
    views = CatalogueViews(valkey, namespace)
    first = [(LogRecord(0, NOW_MS, b""), LogCreated(LOG))]
    with pytest.raises(Behind) as empty:
        await views.apply(PARTITION, Position(LOG, 5), first, 6)
    assert empty.value.stored is None
    await views.apply(PARTITION, Position(LOG, 0), first, 1)
    for start in (Position(LOG, 3), Position("another-log", 1)):
        with pytest.raises(Behind) as caught:
            await views.apply(PARTITION, start, first, 4)
        assert caught.value.stored == Position(LOG, 1)


async def test_what_is_settled_is_due_again_once_it_has_changed(valkey: Coalescer, namespace: str) -> None:
    """Whoever settles by what has changed since, settles nothing."""
    views, account = CatalogueViews(valkey, namespace), ACCOUNTS[0]
    written = {"account": account, "at": NOW_MS * 1000, "resource": "contests", "key": "k", "record": "{}"}
    made = RecordCreated(**written, command_id="a", contest="k", due=5)
    changed = RecordChanged(**written, command_id="b", contest="k", due=6, expected_version=0)

    async def due() -> bool:
        return (account, "k") in await views.due(PARTITION, 10)

    await views.apply(PARTITION, Position(LOG, 0), [(LogRecord(0, NOW_MS, b""), made)], 1)
    await views.settle(account, "k", 0, LATER)
    assert not await due()
    await views.settle(account, "k", 0, 7)
    assert await due()
    await views.settle(account, "k", 0, None)
    await views.settle(account, "k", 0, 7)
    assert not await due()
    await views.apply(PARTITION, Position(LOG, 1), [(LogRecord(1, NOW_MS, b""), changed)], 2)
    await views.settle(account, "k", 0, None)
    assert await due()


async def test_a_page_costs_the_same_at_any_size(valkey: Coalescer, namespace: str) -> None:
    """By the number of records that Valkey touches: a page is one slice of a sorted set and one HMGET."""
    views = CatalogueViews(valkey, namespace)
    position = 0
    for _ in range(10):
        entries: list[Any] = [
            (
                LogRecord(offset, NOW_MS, b""),
                RecordCreated(
                    account=ACCOUNTS[0],
                    command_id=f"c{offset}",
                    at=NOW_MS * 1000,
                    resource="contests",
                    key=f"k{offset}",
                    record="{}",
                ),
            )
            for offset in range(position, position + 100)
        ]
        await views.apply(PARTITION, Position(LOG, position), entries, position + 100)
        position += 100
    seen: list[str] = []
    before = None
    while page := await views.page(ACCOUNTS[0], "contests", before=before, limit=100):
        seen += [stored.key for stored in page]
        before = page[-1].created
    assert seen == [f"k{offset}" for offset in reversed(range(1000))]


async def test_deleting_a_record_with_a_thousand_children_is_one_step(valkey: Coalescer, namespace: str) -> None:
    views = CatalogueViews(valkey, namespace)
    account = ACCOUNTS[0]
    who = {"account": account, "at": NOW_MS * 1000}
    events: list[Any] = [RecordCreated(**who, command_id="c", resource="contests", key="c", record="{}")]
    events += [
        RecordCreated(
            **who, command_id=f"p{n}", resource="participants", key=f"p{n}", record="{}", parent=("contests", "c")
        )
        for n in range(1000)
    ]
    events.append(RecordDeleted(**who, command_id="d", resource="contests", key="c"))
    for first in range(0, len(events), 100):
        entries = [
            (LogRecord(first + index, NOW_MS, b""), event)
            for index, event in enumerate(events[first : first + 100])
        ]
        await views.apply(PARTITION, Position(LOG, first), entries, first + len(entries))
    assert await views.get(account, "participants", "p999") is None
    assert await views.page(account, "participants", parent="c", limit=10) == []
    left = await asyncio.gather(
        *(valkey.call("KEYS", f"{namespace}:*{part}*") for part in ("created", "numbers", "kinds"))
    )
    assert left == [[], [], []]
