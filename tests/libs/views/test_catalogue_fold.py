"""The catalogue's Lua fold equals the Python fold, for any batches, duplicates and restarts."""

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.contracts.catalogue_events import (
    CatalogueEvent,
    ContestClosing,
    ContestRestored,
    KeyAncestor,
    KeyIssued,
    KeyRevoked,
    KeyRules,
    OperatorActed,
    RecordChanged,
    RecordCreated,
    RecordDeleted,
    RecordsWritten,
    Stored,
    Write,
)
from libs.contracts.codec import Undecodable
from libs.contracts.log_records import Behind, LogRecord, Position
from libs.contracts.topics import catalogue_topic
from libs.monitoring.quarantine import reasons_of
from libs.tally.events import Actor, LogCreated
from libs.views.catalogue import catalogue_fold
from libs.views.catalogue.catalogue_fold import MOST_OUTCOMES
from libs.views.catalogue.catalogue_views import CatalogueViews, Entry, Order
from libs.views.valkey.client import ValkeyClient
from tests.support.builders.contests import LAST
from tests.support.hypothesis_examples import PROPERTY, examples
from tests.support.models.catalogue_model import DAY_MS, DELETED, PARENTS, Model
from tests.support.servers.freshness import make_fresh

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

DOINGS = ["close", "close", "restore", "restore", "forget", "issue", "revoke", "poison", "act"]

one_step = st.fixed_dictionaries(
    {
        "do": st.sampled_from(["create"] * 6 + ["change"] * 4 + ["delete"] * 3 + ["together"] * 3 + DOINGS),
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
        "sort": st.sampled_from(["", "", "a", "b"]),
        "after_ms": st.sampled_from([0, 0, 0, 1, 7, -5, DAY_MS // 2, DAY_MS]),
        "skew_us": st.sampled_from([0, -3_000_000, 5_000_000]),
    }
)
step = st.builds(lambda one, more: one | {"more": more}, one_step, st.lists(one_step, max_size=3))


def event_of(step: dict[str, Any], model: Model, offset: int, time_ms: int) -> CatalogueEvent | Undecodable:
    """Mostly about what is there, so that deep states are reached; sometimes about anything."""
    who: dict[str, Any] = {
        "account": step["account"],
        "command_id": COMMANDS[max(0, offset - step["repeats"])],
        "at": time_ms * 1000 + step["skew_us"],
        "content": step["content"],
    }
    pick, write = step["pick"], write_of(step, model, offset)
    match step["do"]:
        case "create" | "change":
            return alone(RecordsWritten(**who, writes=(write,)))
        case "together":
            return RecordsWritten(**who, writes=tuple(writes_of(step, model, offset)))
        case "delete":
            version, above = model.version((step["account"], write.resource, write.key)), 7
            held = model.records.get((step["account"], write.resource, write.key))
            if held is not None and held.parent is not None:
                above = model.version((step["account"], *held.parent))
            return RecordDeleted(
                **who,
                resource=write.resource,
                key=write.key,
                contest=write.contest,
                expected_version=[None, None, version, max(0, version - 1)][pick % 4],
                expected_parent=[None, None, above, max(0, above - 1)][pick // 4 % 4],
            )
        case "restore" | "forget":
            gone = [key for owner, kind, key in model.records if (owner, kind) == (step["account"], DELETED)]
            key = gone[pick % len(gone)] if gone else step["key"]
            if step["do"] == "forget":
                return RecordDeleted(**who, resource=DELETED, key=key, contest=key)
            return ContestRestored(**who, contest=key, due=step["due"])
        case "close":
            version = model.config.get(step["key"], 0) - (pick % 4 == 0)
            closed = f'{{"closing":{offset}}}'
            return ContestClosing(**who, contest=step["key"], record=closed, expected_config=version)
        case "issue":
            rate, expires, networks = (None, 0, 7)[pick % 3], (None, LAST)[pick % 2], ("192.0.2.0/24", "::/0")
            rules = KeyRules("é"[: pick % 2], expires, networks[: pick % 3], rate)
            issued = {"key_id": step["key"], "sha256": "00", "permissions": ("content:read",)}
            return KeyIssued(**who, **issued, rules=rules, ancestors=ancestors_of(step, model))
        case "act":
            return OperatorActed(action="drop", arguments={"a": "b"}, at=0, actor=Actor("command", "tally"))
        case "revoke":
            return KeyRevoked(**who, key_id=step["key"], keeps_descendants=pick % 3 == 0)
    return Undecodable("no event")


def ancestors_of(step: dict[str, Any], model: Model) -> tuple[KeyAncestor, ...]:
    """Of a key made by an operator, by one of the account, and sometimes by one that is not there."""
    rate = (None, 0, 7)[step["pick"] % 3]
    makers = [row for row in model.keys.values() if row.account == step["account"]]
    if step["sensible"] and makers:
        maker = makers[step["pick"] % len(makers)]
        return (*maker.ancestors, KeyAncestor(maker.key_id, rate))
    return () if step["pick"] % 2 else (KeyAncestor(KEYS[step["pick"] % len(KEYS)], rate),)


def write_of(step: dict[str, Any], model: Model, offset: int) -> Write:
    account, pick, sensible = step["account"], step["pick"], step["sensible"]
    there = [(kind, key) for owner, kind, key in model.records if owner == account and kind != DELETED]
    resource, key = step["resource"], step["key"]
    if step["do"] in ("change", "delete") and sensible and there:
        resource, key = there[pick % len(there)]
    above = [key for kind, key in there if kind == PARENTS.get(resource)] if sensible else []
    parent = above[pick % len(above)] if above else KEYS[pick % 3]
    held = model.records.get((account, resource, key))
    if held is not None and held.parent is not None:
        parent = held.parent[1]
    offered = [offer for (owner, *_), held in model.records.items() if owner == account for offer in held.offers]
    strange = [("shops", "nothing"), *(("conventions/days", f"{key}/1") for key in KEYS)]
    targets = [*there, *offered] if sensible else strange
    version = model.version((account, resource, key))
    return Write(
        resource=resource,
        key=key,
        record=f'{{"empty":[],"offset":"{offset}"}}',
        parent=(PARENTS[resource], parent) if resource in PARENTS else None,
        contest=key if resource == "contests" else parent if resource == "participants" else None,
        refs=tuple(dict.fromkeys(targets[(pick + n) % len(targets)] for n in range(step["refs"]) if targets)),
        offers=tuple(("conventions/days", f"{key}/{day}") for day in step["offers"])
        if resource == "conventions"
        else (),
        due=step["due"],
        sort_key=step["sort"],
        expected_version=None if step["do"] == "create" else version if pick % 5 else version + 1,
    )


def writes_of(step: dict[str, Any], model: Model, offset: int) -> Iterator[Write]:
    """Several at once, some of which refer to one another, or to what another of them offers or takes away."""
    account, writes = step["account"], []
    for one in [step, *step["more"]]:
        known = (account, one["resource"], one["key"]) in model.records
        do = "change" if known or one["do"] == "change" else "create"
        writes.append(write_of(one | {"account": account, "do": do}, model, offset))
    for index, (one, write) in enumerate(zip([step, *step["more"]], writes, strict=True)):
        other = writes[index - 1]
        held = model.records.get((account, other.resource, other.key))
        parts = [(other.resource, other.key), *other.offers, *(held.offers if held else ())]
        more = (parts[one["pick"] % len(parts)],) if one["pick"] % 3 == 0 else ()
        yield replace(write, refs=tuple(dict.fromkeys((*write.refs, *more))))


def alone(event: RecordsWritten) -> RecordCreated | RecordChanged:
    """An event of one write, as the event that it would be."""
    (write,) = event.writes
    members = {name: getattr(event, name) for name in ("account", "command_id", "at", "content")}
    members |= {field.name: getattr(write, field.name) for field in fields(write)}
    if write.expected_version is None:
        del members["expected_version"]
        return RecordCreated(**members)
    return RecordChanged(**members)


async def assert_ascending(views: CatalogueViews, model: Model, account: str, resource: str, parent: str) -> None:
    """The lists in the other orders, in pages of two."""
    orders: dict[Order, Callable[[Stored], int | str]] = {
        "running_number": lambda stored: stored.created,
        "sort_key": lambda stored: model.place(account, resource, stored),
    }
    for order, place in orders.items():
        listed: list[Stored] = []
        after: int | str = ""
        while page := await views.page(account, resource, parent=parent, order=order, after=after, limit=2):
            listed += page
            after = place(page[-1])
        assert listed == model.ascending(account, resource, parent, order)


async def assert_equal(views: CatalogueViews, model: Model) -> None:
    assert await views.position(PARTITION) == Position(LOG, model.offset)
    await make_fresh(views.fresh, PARTITION)
    for account in ACCOUNTS:
        for resource in [*TOPS, *PARENTS, DELETED]:
            for key in KEYS:
                held = model.found((account, resource, key))
                assert await views.get(account, resource, key) == (held.stored if held else None)
            for parent in KEYS if resource in PARENTS else [""]:
                orders: list[Order] = ["updated"] if resource == DELETED else ["created", "updated"]
                for order in orders:
                    listed = await views.page(account, resource, parent=parent, order=order, limit=10)
                    assert listed == model.list_of(account, resource, parent, order)
                if resource != DELETED:
                    await assert_ascending(views, model, account, resource, parent)
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
            assert replace(outcome, refs=()) == replace(remembered, refs=())
            assert set(outcome.refs) == set(remembered.refs)
    rows = (await views.keys(PARTITION, "")).rows
    assert {row.key_id: row for row in rows or ()} == model.keys
    assert await reasons_of(views.generations.valkey, views.generations, PARTITION, 1) == model.quarantine


async def fold_in_pieces(
    views: Any, partition: int, entries: Sequence[Any], cuts: Iterable[int], again: Sequence[bool]
) -> None:
    """Fold a log in pieces, some of them twice."""
    edges = sorted({0, len(entries), *(cut % len(entries) for cut in cuts)})
    for (first, after), twice in zip(pairwise(edges), again, strict=False):
        for _ in range(1 + twice):
            await views.apply(partition, Position(LOG, first), entries[first:after], after)


def logged(steps: list[dict[str, Any]], most_outcomes: int = MOST_OUTCOMES) -> tuple[list[Entry], Model]:
    """Return the log of these steps, and its plain fold."""
    model, time_ms = Model(most_outcomes=most_outcomes), NOW_MS
    entries: list[Entry] = [(LogRecord(0, time_ms, b""), LogCreated(LOG))]
    model.fold(0, time_ms, LogCreated(LOG))
    for offset, one in enumerate(steps, start=1):
        time_ms += one["after_ms"]
        event = event_of(one, model, offset, time_ms)
        model.fold(offset, time_ms, event)
        entries.append((LogRecord(offset, time_ms, b""), event))
    return entries, model


@settings(PROPERTY, max_examples=examples(100))
@given(
    steps=st.lists(step, min_size=25, max_size=50),
    cuts=st.lists(st.integers(0, 1000), max_size=6),
    again=st.lists(st.booleans(), min_size=8, max_size=8),
    most_outcomes=st.sampled_from([1, 3, MOST_OUTCOMES]),
)
async def test_any_log_cut_anyhow_and_partly_folded_twice_gives_the_plain_fold(
    valkey: ValkeyClient, steps: list[dict[str, Any]], cuts: list[int], again: list[bool], most_outcomes: int
) -> None:
    (entries, model), views = logged(steps, most_outcomes), CatalogueViews(valkey, f"t{uuid.uuid4().hex[:8]}")
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(catalogue_fold, "MOST_OUTCOMES", most_outcomes)
        await fold_in_pieces(views, PARTITION, entries, cuts, again)
    await assert_equal(views, model)


async def test_an_account_keeps_a_bounded_number_of_outcomes_also_of_refused_commands(
    valkey: ValkeyClient, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For ten thousand of them a day of refusals costs some megabytes, however many there are."""
    monkeypatch.setattr(catalogue_fold, "MOST_OUTCOMES", 10)
    views = CatalogueViews(valkey, namespace)
    keys = f"{views.generations.base(PARTITION)}:g1:"

    async def refuse(first: int, after: int, time_ms: int) -> tuple[int, int, int]:
        deleted: dict[str, Any] = {"account": ACCOUNTS[0], "at": 0, "resource": "apps", "key": "none"}
        entries: list[Entry] = [
            (LogRecord(at, time_ms, b""), RecordDeleted(**deleted, command_id=f"c{at}"))
            for at in range(first, after)
        ]
        await views.apply(PARTITION, Position(LOG, first), entries, after)
        ring = f"outcome_ring:{ACCOUNTS[0]}"
        sizes = [await valkey.call("HLEN", keys + "outcomes"), await valkey.call("HLEN", keys + ring)]
        return (*sizes, await valkey.call("ZCARD", keys + "outcome_times"))

    assert await refuse(0, 7, NOW_MS) == (7, 7, 7)
    assert await refuse(7, 200, NOW_MS) == (10, 10, 10)
    assert await refuse(200, 210, NOW_MS + DAY_MS) == (10, 10, 10)
    assert await refuse(210, 211, NOW_MS + 3 * DAY_MS) == (10, 10, 10)
    assert await refuse(211, 212, NOW_MS + 3 * DAY_MS) == (9, 9, 9), "two expired ones go for each new one"


async def test_a_batch_from_elsewhere_is_refused_naming_the_position(valkey: ValkeyClient, namespace: str) -> None:
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


async def test_what_is_settled_is_due_again_once_it_has_changed(valkey: ValkeyClient, namespace: str) -> None:
    """A caller that settles by what has changed since settles nothing."""
    views, account = CatalogueViews(valkey, namespace), ACCOUNTS[0]
    written: dict[str, Any] = {"account": account, "at": NOW_MS * 1000}
    written |= {"resource": "contests", "key": "k", "record": "{}"}
    made = RecordCreated(**written, command_id="a", contest="k", due=5)
    changed = RecordChanged(**written, command_id="b", contest="k", due=6, expected_version=0)

    async def due() -> bool:
        return (account, "k") in await views.due(PARTITION, 10)

    await views.apply(PARTITION, Position(LOG, 0), [(LogRecord(0, NOW_MS, b""), made)], 1)
    await make_fresh(views.fresh, PARTITION)
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
