"""No call of a Valkey function does more when more is stored: Valkey runs one at a time, so a long one delays all.

Each scenario stores `size` of everything that can be many, and makes every call that can meet it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
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
from libs.contracts.topics import catalogue_topic, purchases_topic, votes_topic
from libs.contracts.vote_states import VoteName
from libs.tally.contest import Contest
from libs.tally.counts import VoteSums
from libs.tally.events import ContestClosed, ContestReopened, Event, LogCreated, Rating
from libs.tally.reservations import Granted
from libs.views.address_counters import AddressCounters, Take
from libs.views.catalogue_views import CatalogueViews
from libs.views.closing_reads import CLOSING_PARTITIONS, PENDING_PAGE
from libs.views.function_libraries import libraries
from libs.views.generations import TIMELINE, Generations
from libs.views.ledger_scan import LedgerScan
from libs.views.partition_reads import raised
from libs.views.purchase_views import PurchaseViews
from libs.views.reply_types import FoldInput, Refund, SourceCounts
from libs.views.timeline import Timeline
from libs.views.vote_views import APPLY_ITEMS, RAISES, VoteViews
from libs.voting.batching import CALL_PARTITIONS, CALL_REQUESTS, CONFIRMED_PARTITIONS
from tests.libs.views.measured import Measured, library_of, measured
from tests.libs.views.simulation.lua_ledger import request_of
from tests.support.builders import a_cast, a_contest, a_removal, a_report, a_void, a_vote, content_hash, pseudonym
from tests.support.freshness import make_fresh
from tests.support.purchases_log import NOW_US, a_purchase, purchase_key

SMALL, LARGE = 530, 2_120
"""More than a page of anything, and four times as much."""
ROOM, GROWTH = 60, 1.3
"""Pages of a scan are of about a size, and numbers have more digits: this much more is no growth."""
MOST_WORK = 20_000
"""Work that takes Valkey about 2 ms."""
NOW_MS: Final = NOW_US // 1000
RATED: Final[dict[str, Any]] = {
    "form": "rating",
    "max_participant": 1,
    "rating": Rating(4_000_000, (("s", 1_000_000),)),
}
HASHES = ("voters", "shares", "spill", "details", "counts", "names", "ratings", "voids", "waiting", "sources",
          "figures", "reports", "minutes", "releases")  # fmt: skip


class Votes:
    """A partition of votes, folded and read by measured calls."""

    def __init__(self, valkey: Measured, namespace: str) -> None:
        self.valkey = valkey
        self.namespace = namespace
        self.views = VoteViews(valkey, namespace, 1)
        self.generations = Generations(valkey, namespace, "votes", votes_topic(namespace, 1))
        self.log: list[FoldInput] = []

    async def fold(self, *events: Event, minute: int = 0, at_once: int = APPLY_ITEMS) -> None:
        first = len(self.log)
        self.log += [FoldInput(event, at, NOW_MS + minute * 60_000) for at, event in enumerate(events, first)]
        await self.fold_into(self.views, first, at_once)

    async def fold_into(self, views: VoteViews, first: int = 0, at_once: int = APPLY_ITEMS) -> None:
        for at in range(first, len(self.log), at_once):
            batch = self.log[at : at + at_once]
            await views.apply(0, Position("log", at), batch, at + len(batch))

    async def fence(self, incarnation: int = 0) -> int:
        fence = await self.views.shut(0, incarnation)
        assert fence is not None
        await self.views.need(0, fence, {0: 1})
        await self.fold(fence, at_once=1)
        return fence.incarnation


async def votes(valkey: Measured, namespace: str, size: int) -> None:
    its = Votes(valkey, namespace)
    views, names = its.views, [f"p{number}" for number in range(size)]
    contest = a_contest(participants=dict.fromkeys(names, "approved"), as_of=9)
    n = await its.fence()
    cast: Any = partial(a_cast, incarnation=n)
    for at, name in enumerate(names):
        its.log.append(FoldInput(cast(name, voter=f"voter {at}", **RATED), len(its.log), NOW_MS + at * 60_000))
    await its.fold_into(views, 1)
    await its.fold(*(cast(name, voter="busy", vote_id=f"r {name}", **RATED) for name in names), minute=size)
    await its.fold(*(cast(contest=f"contest {number}") for number in range(size)))
    await its.fold(*(cast("p0", voter="busy", vote_id=f"b {at}", choices=[(name, 1) for name in names[at:at + 9]],
                          form="ballot", contest="ballots") for at in range(0, size, 9)))  # fmt: skip
    await its.fold(*(a_void(f"r {name}", voter="busy") for name in names[:9]))
    await its.fold(*(cast("a", voter=f"voter {at}", contest="closed") for at in range(size)))
    await its.fold(ContestClosed("closed", 1))
    removed = [a_removal(voter=f"voter {at}", contest="closed", incarnation=n) for at in range(size)]
    await its.fold(*removed)
    for at in range(0, size, 250):
        figures = [(f"id {number}", 1, 1, 1) for number in range(at, at + 250)]
        await its.fold(a_report(f"report {at}", *figures), minute=at, at_once=1)
        await its.fold(a_report(f"release {at}", *figures, allow_decrease=True), minute=at + 1, at_once=1)
    await its.fold(*(a_report(f"of another {at}", ("x", at, 0, 0)) for at in range(size)))
    await its.fold(*(a_report("first", ("x", 1, 0, 0), source=f"source {at}") for at in range(100)))
    await views.raise_config(0, contest.key, contest.version)
    assert await views.put_in_force(0, contest, n)
    for at in range(size):
        await views.raise_config(0, f"contest {at}", 1)
    waiting = [a_vote(names[at], voter=f"voter {at}", vote_id="pending") for at in range(size)]
    many = [a_vote(names[at % size], voter="busy", vote_id=f"pending {at}") for at in range(500)]
    for at in range(0, size, 64):
        await views.reserve(0, [request_of(contest, command) for command in waiting[at : at + 64]])
    valkey.worst.clear()

    for event in (
        cast(names[-1], voter="busy", vote_id="replaces", **RATED),
        cast(names[-2], voter="busy", vote_id="plain", epoch=1, next_free_vote_at=9),
        cast(names[-3], voter="busy", vote_id="renewed", epoch=2, next_free_vote_at=9),
        cast("new", voter="busy", vote_id="new"),
        cast(names[0], voter="new"),
        cast(
            voter="busy",
            contest="ballots",
            vote_id="ballot",
            form="ballot",
            choices=[(name, 1) for name in names[-9:]],
        ),
        cast(contest="another new"),
        a_removal(f"r {names[-4]}", voter="busy", incarnation=n),
        a_removal(f"r {names[0]}", voter="busy", incarnation=n),
        a_void(f"r {names[-5]}", voter="busy"),
        a_report("more", *((f"id {number}", 9, 1, 1) for number in range(250))),
        a_report("less", *((f"id {number}", 0, 1, 1) for number in range(250))),
        ContestReopened("closed", 1, 64),
    ):
        await its.fold(event, minute=size + 9, at_once=1)
    await read(its, names)
    for at in range(0, len(many), 64):
        await views.reserve(0, [request_of(contest, command) for command in many[at : at + 64]])
    await views.reserve(
        0, [request_of(contest, a_vote(names[at], vote_id="w", voter=f"w {at}")) for at in range(64)]
    )
    await views.release(0, contest.key, many[0].voter, many[0].vote_id, n)
    await views.remove(0, contest, pseudonym("busy"), f"r {names[-6]}", declined=False)
    refund = Refund(False, content_hash("a"), "c-paid")
    await views.refund(0, contest.key, pseudonym("busy"), "refunded", refund)
    await views.confirm(0, n)
    await views.raise_config(0, contest.key, contest.version)
    await generations_of_votes(its)
    await its.fence(n)
    await views.open_retired(0, Position("log", len(its.log)))
    await addresses(AddressCounters(valkey, namespace), size)
    await together(VoteViews(valkey, namespace, CLOSING_PARTITIONS), contest)


async def together(views: VoteViews, contest: Contest) -> None:
    """Decide, confirm, raise and read closings for as many partitions as share a call."""
    gates = []
    for partition in range(CALL_PARTITIONS):
        fence = await views.shut(partition, 0)
        assert fence is not None
        await views.need(partition, fence, {0: 1})
        first = [FoldInput(LogCreated("log"), 0, NOW_MS), FoldInput(fence, 1, NOW_MS)]
        await views.apply(partition, Position("log", 0), first, 2)
        assert await views.put_in_force(partition, contest, fence.incarnation)
        gates.append((partition, fence.incarnation))
    voters = range(CALL_REQUESTS // CALL_PARTITIONS)
    requests = [request_of(contest, a_vote("p1", voter=f"together {number}")) for number in voters]
    decided = await views.reserve_together([(partition, requests) for partition, _ in gates])
    assert {type(answer) for answers in decided for answer in raised(answers)} == {Granted}
    assert all(await views.confirm_together(gates * (CONFIRMED_PARTITIONS // CALL_PARTITIONS)))
    versions = dict.fromkeys([contest.key, *(f"contest {number}" for number in range(RAISES))], 2)
    partitions = [partition for partition, _ in gates]
    assert not any(await views.raise_together(partitions, versions))
    for partition in partitions:
        for at in range(0, PENDING_PAGE // CALL_PARTITIONS * 2, CALL_REQUESTS):
            voters = range(at, at + CALL_REQUESTS)
            newer = replace(contest, version=2)
            await views.reserve(
                partition, [request_of(newer, a_vote("p1", voter=f"closing {number}")) for number in voters]
            )
    states = await views.closings(range(CLOSING_PARTITIONS), contest.key)
    assert {states[partition].pending for partition in partitions} == {68}


async def read(its: Votes, names: Sequence[str]) -> None:
    views = its.views
    known = await views.counts(0, "contest")
    await views.counts(0, "contest", known)
    await VoteViews(its.valkey, its.namespace, 64).changed("contest", dict.fromkeys(range(64), known))
    assert known is not None
    await views.state(0)
    await views.live.marks((0,))
    await views.doubts((0,))
    await views.source(0, "contest", "sms", [f"id {number}" for number in range(len(names))])
    await views.ids(0)
    await views.lookups(0, [VoteName("contest", pseudonym("busy"), f"r {name}") for name in names[-64:]])
    await views.lookups(0, [VoteName("ballots", pseudonym("busy"), f"b {9 * at}") for at in range(64)])
    for contest in ("contest", "ballots"):
        _, page = await views.votes_of(0, contest, pseudonym("busy"), b"", 50)
        await views.votes_of(0, contest, pseudonym("busy"), page[-1][0], 50)
    used = (await views.allowance(0, "contest", pseudonym("busy"))).used
    assert {row.participant for row in used} >= {*names, ""}
    await views.report(0, "contest", "sms", "less")
    await views.closing(0, "contest")
    pages = LedgerScan(its.valkey, its.namespace, 1)
    for contest in ("contest", "ballots", "closed"):
        for name in ("voters", *HASHES):
            await pages.fields(0, name, contest)
    past = Timeline(its.valkey, its.namespace, 1)
    sources = {"sms": SourceCounts(0, 0, dict.fromkeys(known.sources["sms"].figures, VoteSums()), {})}
    first = await past.first_minute(0, "contest")
    assert first is not None
    await past.counts_at(0, "contest", first + 7, names, sources)
    async for _ in past.changes(0, "contest", range(first, first + len(names), 1), ["", *names], sources):
        pass


async def generations_of_votes(its: Votes) -> None:
    generations = its.generations
    for number, scope in ((2, TIMELINE), (3, "contest")):
        assert await generations.open(0, number, scope)
        kept = dict(its.valkey.worst)
        await its.fold_into(VoteViews(its.valkey, its.namespace, 1, generation=number))
        its.valkey.worst["votes_fold"] = kept.get("votes_fold", 0)  # batches of the same size
        await generations.touch(0, number, Position("log", len(its.log)))
        assert (await generations.swap(0, number)).done
        async for _ in generations.differences(0, number, ["voters:contest", "minutes:contest", "contests"]):
            pass
        assert (await generations.read(0)).others[number].read
        assert (await generations.swap(0, number, read=False)).done
        await generations.hold(0, number)
        await generations.expire(0, 3_600)
        await generations.drop(0, number)


async def addresses(counters: AddressCounters, size: int) -> None:
    counter, taken = ("contest", "a", "address"), [(f"vote {at}", 1) for at in range(size)]
    await counters.take([Take(counter, taker, votes, -1, 0) for taker, votes in taken])
    await counters.take([Take(("contest", "a", f"of {taker}"), taker, 1, 5, NOW_MS) for taker, _ in taken])
    await counters.refill(counter, taken, NOW_MS)
    await counters.give(*counter, "vote 1")


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
    for at in range(size):
        new(
            resource="participants",
            key=f"p{at}",
            parent=("contests", "contest"),
            contest="contest",
            sort_key=f"k{at}",
            **image,
        )
        new(resource="contests", key=f"c{at}", contest=f"c{at}", due=1, **image)
        add(KeyIssued, key_id=f"key {at}", sha256="00", permissions=("x",))
    for at in range(100):
        new(resource="vote_sources", key=f"s{at}", parent=("contests", "contest"), contest="contest")
    await fold()
    await make_fresh(views.fresh, partition)
    valkey.worst.clear()

    await views.position(partition)
    await views.live.marks((partition,))
    await views.raises(partition)
    await views.raised(partition, range(100), [0])
    await views.with_raises([partition])
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
    new(resource="participants", key="last", parent=("contests", "contest"), contest="contest", **image)
    add(RecordChanged, resource="participants", key="last", record="{}", expected_version=version + 1)
    add(KeyRevoked, key_id="key 7")
    add(RecordDeleted, resource="contests", key="contest", contest="contest")
    new(resource="images", key="next")
    await fold(at_once=1)
    assert await views.get(ACCOUNT, "participants", "p7") is None
    await rebuilt_generations(
        Generations(valkey, namespace, "catalogue", catalogue_topic(namespace)), partition, entries
    )


async def rebuilt_generations(generations: Generations, partition: int, entries: Sequence[Any]) -> None:
    """Every step of a replay but its batches, which are as large as those of the live view."""
    valkey = generations._valkey
    assert isinstance(valkey, Measured)
    assert await generations.open(partition, 2)
    kept = dict(valkey.worst)
    views: Any = (
        CatalogueViews(valkey, generations._namespace, 2)
        if generations.prefix == "catalogue"
        else PurchaseViews(valkey, generations._namespace, generations.topic.topics[0], 2)
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
    await generations.hold(partition, 1)
    await generations.expire(partition, 3_600)
    await generations.drop(partition, 1)


async def purchases(valkey: Measured, namespace: str, size: int) -> None:
    topic = purchases_topic(namespace, 1)
    views, entries = PurchaseViews(valkey, namespace, topic), []
    events: list[Any] = [LogCreated("log"), *(a_purchase(f"purchase {at}") for at in range(size))]
    for at in range(size // 2):
        refused: dict[str, Any] = {"account": "a1", "key": purchase_key(f"purchase {at}"), "at": NOW_US}
        events.append(PurchaseRefused(**refused, code="limit", reason="over"))
    for at in range(size // 2, size):
        events.append(
            PurchaseCast(account="a1", key=purchase_key(f"purchase {at}"), at=NOW_US, accepted_at=NOW_US)
        )
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
