"""Stores many of everything in the views of votes, and makes every call that can meet it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from libs.contracts.log_records import Position
from libs.contracts.topics import votes_topic
from libs.contracts.vote_states import VoteName
from libs.tally.contest import Contest
from libs.tally.counts import VoteSums
from libs.tally.events import ContestClosed, ContestReopened, Event, LogCreated, Rating
from libs.tally.reservations import Granted, Take
from libs.views.generations.generations import Generations
from libs.views.valkey.partition_reads import raised
from libs.views.votes.address_counters import AddressCounters
from libs.views.votes.closing_reads import CLOSING_PARTITIONS, PENDING_PAGE
from libs.views.votes.ledger_export import PARTS, export
from libs.views.votes.reply_types import SourceCounts
from libs.views.votes.timeline import Timeline
from libs.views.votes.vote_views import APPLY_ITEMS, RAISES
from libs.voting.group_commit import CONFIRMED_PARTITIONS
from libs.voting.group_queue import GROUP_PARTITIONS, GROUP_VOTES
from tests.libs.views.lua_ledger import request_of
from tests.libs.views.measured import Measured
from tests.libs.views.partition import Partition
from tests.support.builders.contests import a_cast, a_contest, a_removal, a_report, a_void, a_vote, pseudonym
from tests.support.builders.purchases_log import NOW_US
from tests.support.clients.vote_views import FoldInput, VoteViews

NOW_MS: Final = NOW_US // 1000
RATED: Final[dict[str, Any]] = {
    "form": "rating",
    "max_participant": 1,
    "rating": Rating(4_000_000, (("s", 1_000_000),)),
}
BALLOT: Final[dict[str, Any]] = {"form": "ballot", "contest": "ballots"}


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
    for at in range(0, size, 9):
        choices = [(name, 1) for name in names[at : at + 9]]
        await its.fold(cast(voter="busy", vote_id=f"b {at}", choices=choices, **BALLOT))
    await its.fold(*(a_void(f"r {name}", voter="busy") for name in names[:9]))
    await its.fold(*(cast("a", voter=f"voter {at}", contest="closed") for at in range(size)))
    await its.fold(ContestClosed("closed", 1))
    await its.fold(*(a_removal(voter=f"voter {at}", contest="closed", incarnation=n) for at in range(size)))
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
        cast(voter="busy", vote_id="ballot", choices=[(name, 1) for name in names[-9:]], **BALLOT),
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
    others = [a_vote(names[at], vote_id="w", voter=f"w {at}") for at in range(64)]
    await views.reserve(0, [request_of(contest, command) for command in others])
    await views.release(0, VoteName(contest.key, many[0].voter, many[0].vote_id), n)
    await views.remove(0, contest, pseudonym("busy"), f"r {names[-6]}", declined=False)
    await views.refund(0, a_vote("a", voter="busy", vote_id="refunded", source="c-paid"))
    await views.confirm(0, n)
    await views.raise_config(0, contest.key, contest.version)
    await generations_of_votes(its)
    await its.fence(n)
    await addresses(AddressCounters(valkey, namespace), size)
    await together(VoteViews(valkey, namespace, CLOSING_PARTITIONS), contest)
    await loss_of_votes(its)


async def together(views: VoteViews, contest: Contest) -> None:
    """Decide, confirm, raise and read closings for as many partitions as share a call."""
    gates = []
    for partition in range(GROUP_PARTITIONS):
        its = Partition(views, partition)
        fence = await its.shut()
        await views.need(partition, fence, {0: 1})
        await its.fold(LogCreated("log"), fence)
        assert await views.put_in_force(partition, contest, fence.incarnation)
        gates.append((partition, fence.incarnation))
    voters = range(GROUP_VOTES // GROUP_PARTITIONS)
    requests = [request_of(contest, a_vote("p1", voter=f"together {number}")) for number in voters]
    decided = await views.reserve_together([(partition, requests) for partition, _ in gates])
    assert {type(reserved.answer) for answers in decided for reserved in raised(answers)} == {Granted}
    assert all(await views.confirm_together(gates * (CONFIRMED_PARTITIONS // GROUP_PARTITIONS)))
    versions = dict.fromkeys([contest.key, *(f"contest {number}" for number in range(RAISES))], 2)
    partitions = [partition for partition, _ in gates]
    assert not any(await views.raise_together(partitions, versions))
    for partition in partitions:
        for at in range(0, PENDING_PAGE // GROUP_PARTITIONS * 2, GROUP_VOTES):
            votes = [a_vote("p1", voter=f"closing {number}") for number in range(at, at + GROUP_VOTES)]
            newer = replace(contest, version=2)
            await views.reserve(partition, [request_of(newer, vote) for vote in votes])
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
    for contest in ("contest", "ballots", "closed"):
        for part in PARTS:
            await export(views, 0, part, contest)
    past = Timeline(views)
    sources = {"sms": SourceCounts(0, 0, dict.fromkeys(known.sources["sms"].figures, VoteSums()), {})}
    first = await past.first_minute(0, "contest")
    assert first is not None
    await past.counts_at(0, "contest", first + 7, names, sources)
    async for _ in past.changes(0, "contest", range(first, first + len(names), 1), ["", *names], sources):
        pass


async def generations_of_votes(its: Votes) -> None:
    generations = its.generations
    assert await generations.open(0, 2)
    kept = dict(its.valkey.worst)
    await its.fold_into(VoteViews(its.valkey, its.namespace, 1, generation=2))
    its.valkey.worst["votes_fold"] = kept.get("votes_fold", 0)  # batches of the same size
    await generations.touch(0, 2, Position("log", len(its.log)))
    async for _ in generations.differences(0, 2, ["voters:contest", "minutes:contest", "contests"]):
        pass
    assert (await generations.swap(0, 2)).done
    assert (await generations.read(0)).live.number == 2
    assert (await generations.swap(0, 1)).done
    await generations.renew(0, 2)
    await generations.expire(0, 3_600)
    await generations.drop(0, 2)
    assert await generations._call("unlink", 0, 2, "position") == 1


async def loss_of_votes(its: Votes) -> None:
    """Let the view begin again: nothing else can be read then."""
    generations = its.generations
    assert await generations.witness(0) is not None
    stored = (await generations.read(0)).live.position
    assert stored is not None
    assert await generations.begin_again(0, stored, stored.offset - 1)
    await generations.set_told(0, 1)


async def addresses(counters: AddressCounters, size: int) -> None:
    counter, taken = ("contest", "a", "address"), [(f"vote {at}", 1) for at in range(size)]
    await counters.take([Take(counter, taker, votes, -1, 0) for taker, votes in taken])
    await counters.take([Take(("contest", "a", f"of {taker}"), taker, 1, 5, NOW_MS) for taker, _ in taken])
    await counters.refill(counter, taken, NOW_MS)
    await counters.give(counter, "vote 1")
