"""`tally verify`: no finding for a correct view, and always one for a wrong view."""

import asyncio
import json
import multiprocessing
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import ANY

import msgpack
import pytest

from libs.audit.comparison import ProcessKilled
from libs.audit.report import VerificationReport
from libs.contracts.ndjson_codec import json_form
from libs.local_stack.servers import Servers
from libs.tally.events import ContestClosed, ContestReopened, Event, Fence, Rating
from tests.support.builders.contests import NOW, a_cast, a_removal, a_report
from tests.support.builders.folded_log import FoldedLog, folded_log
from tests.support.clients.commands import run, use_deployment
from tests.support.eventually import eventually
from tests.support.servers.deployments import compare, compare_in_parallel

pytestmark = pytest.mark.slow

WIDE = 70
"""Participants of whom some lie in shares."""
MANY = 12
"""More vote ids than the ledger keeps beside their voter."""


@pytest.fixture
async def log(kafka: str, valkey_address: str, namespace: str) -> AsyncIterator[FoldedLog]:
    async with folded_log(kafka, valkey_address, namespace) as log:
        await log.begin_catalogue()
        yield log


def an_hour_of_votes(start: int = 0, voters: int = 40) -> list[Event | bytes]:
    """Everything that a fold must distinguish: sources, repeats, limits, fences, poison, voters of many votes."""
    votes: list[Event | bytes] = []
    for i in range(start, start + voters):
        voter, source = f"voter {i}", "c-paid" if i % 3 == 0 else "c-free"
        votes.append(a_cast("abc"[i % 3], 1 + i % 4, voter=voter, anonymous=i % 5 == 0, source=source))
        votes.append(a_cast("abc"[i % 3], 1 + i % 4, voter=voter, anonymous=i % 5 == 0, source=source))
        votes.append(a_cast("b", 2, voter=voter, anonymous=i % 5 == 0, vote_id="over", max_participant=1))
        votes.append(a_cast("a", voter=voter, contest="another", remaining_contest=5, next_free_vote_at=99))
    votes += [a_cast("c", voter="busy", vote_id=f"{start}-{i}") for i in range(MANY)]
    return [*votes, b"poison", a_cast(choices=(("a", 1), ("b", 1)))]


def all_that_happens(start: int = 0, voters: int = 12) -> list[Event | bytes]:
    """Ratings and ballots, replaced and removed; refunds that come first; reports; a close and what follows it."""
    events: list[Event | bytes] = []
    rating: dict[str, Any] = {"form": "rating", "max_participant": 1, "contest": "rated"}
    ballot: dict[str, Any] = {"form": "ballot", "contest": "ordered", "max_contest": 1}
    for i in range(start, start + voters):
        who: dict[str, Any] = {"voter": f"voter {i}", "anonymous": i % 3 == 0}
        renews: dict[str, Any] = {"next_free_vote_at": NOW + 50, "epoch": i % 2}
        for n in range(3):
            values = Rating(500_000 * n, (("song", 1_000_000 * n),))
            events.append(a_cast("ab"[i % 2], vote_id=f"r{n}", rating=values, **rating, **renews, **who))
        events.append(a_removal("r2" if i % 4 else "r0", contest="rated", **who))
        for n, choices in enumerate([(("a", 5), ("b", 3)), (("c", 5), ("a", 3), ("b", 1))]):
            events.append(a_cast(vote_id=f"b{n}", choices=choices, **ballot, **who))
        events += [a_cast("c", vote_id=f"many {n}", contest="plain", **who) for n in range(MANY)]
        wide = range(WIDE if i < 2 else 0)
        events += [
            a_cast(f"p{n}", vote_id=f"w{n}", rating=values, **rating | {"contest": "wide"}, **who) for n in wide
        ]
        events += [a_removal(f"many {n}", contest="plain", **who) for n in (0, MANY - 1)]
        events.append(a_removal("refunded first", contest="plain", source="c-paid", reason="refund", **who))
        events.append(a_report(f"report {i}", ("x", i + 1, 1, 0), ("y", 6 - i % 2, 1, 1), contest="plain"))
    if start == 0:
        events += [ContestClosed("plain", 1), ContestClosed("plain", 1, "sms"), ContestClosed("ordered", 1)]
        events.append(a_cast("a", voter="late", contest="plain", vote_id="late"))
        events.append(a_removal("many 5", voter="voter 1", contest="plain", reason="refund"))
        events += [a_removal("b1", voter="voter 2", contest="ordered"), ContestReopened("ordered", 1)]
        events.append(a_report("late", ("x", 99, 0, 0), contest="plain"))
        events.append(a_report("alone", ("x", 99, 0, 0), contest="reported only"))
    return events


async def test_every_kind_of_event_gives_the_same_view_and_the_equation_holds(log: FoldedLog) -> None:
    await log.append(all_that_happens())
    await log.fold()
    report = await compare(log.stack)
    assert report.differences == []
    assert report.equal
    assert report.outcomes == {
        "counted": 3 + 11 + 12 * (MANY - 2) + 2 * WIDE,
        "overruled": 0,
        "removed": 9 + 1 + 12 * 3,
        "replaced": 24 + 12,
        "voided": 0,
        "late": 1,
    }
    sms = json_form(report.contests["plain"].sources["sms"])
    assert sms == {
        "latest": 17,
        "taken_over": {"x": 12, "y": 6},
        "held": {"y": 5},
        "reports": 13,
        "balanced": True,
    }
    assert "reported only" in report.contests


async def test_what_changes_while_it_compares_is_no_difference(log: FoldedLog) -> None:
    await log.append(all_that_happens(start=10_000, voters=60))
    await log.fold()
    stop = asyncio.Event()

    async def go_on() -> None:
        first = 0
        while not stop.is_set():
            first += 1_000
            await log.append(all_that_happens(start=first, voters=4))
            removed = [a_removal(f"many {n}", voter=f"voter {first}", contest="plain") for n in range(1, 6)]
            await log.append(removed)
            await log.fold()

    going_on = asyncio.create_task(go_on())
    reports = [await compare(log.stack) for _ in range(4)]
    stop.set()
    await going_on
    assert [report.differences for report in reports] == [[]] * 4


@pytest.mark.parametrize(
    "name",
    ["voters:rated", "voters:ordered", "shares:wide", "spill:plain", "details:rated", "details:ordered",
     "names:ordered", "ratings:rated", "waiting:plain", "sources:plain", "figures:plain", "reports:plain"],
)  # fmt: skip
@pytest.mark.parametrize("change", ["lost", "another's"])
async def test_one_doctored_field_of_any_hash_is_found(many_minutes: FoldedLog, name: str, change: str) -> None:
    log, key = many_minutes, many_minutes.key(f"g1:{name}")
    flat = await log.valkey.call("HGETALL", key)
    pairs = dict(zip(flat[::2], flat[1::2], strict=True))
    field, value = next(iter(sorted(pairs.items())))
    others = [other for other in pairs.values() if other != value]
    async with restored(log, key):
        if change == "lost":
            await log.valkey.call("HDEL", key, field)
        elif others:
            await log.valkey.call("HSET", key, field, others[0])
        else:
            await log.valkey.call("HSET", key, field + b"x" * 12, value)
        report = await compare(log.stack)
    assert not report.equal
    assert {difference.contest for difference in report.differences} == {name.partition(":")[2]}


@pytest.fixture(scope="module")
async def many_minutes(servers: Servers) -> AsyncIterator[FoldedLog]:
    """All kinds of events, one every twenty seconds. A test that changes the view restores it."""
    at, name = servers.addresses, f"t{uuid.uuid4().hex[:8]}"
    async with folded_log(at.kafka, at.valkey, name, given_times=True) as log:
        await log.begin_catalogue()
        await log.append(all_that_happens(), at_ms=NOW // 1000, apart_ms=20_000)
        await log.fold()
        yield log


@asynccontextmanager
async def restored(log: FoldedLog, key: str) -> AsyncIterator[None]:
    """Give the key its former value at the end."""
    before = await log.valkey.call("DUMP", key)
    yield
    await log.valkey.call("UNLINK", key)
    if before is not None:
        await log.valkey.call("RESTORE", key, 0, before)


async def test_what_was_at_the_end_of_every_minute_equals_the_fold(many_minutes: FoldedLog) -> None:
    log = many_minutes
    kept = [
        await log.valkey.call("ZCARD", log.key(f"g1:minutes:{name}")) for name in ("rated", "ordered", "plain")
    ]
    assert min(kept) > 40
    report = await compare(log.stack)
    assert report.differences == []
    await log.append(all_that_happens(start=100, voters=3), at_ms=NOW // 1000 + 9_000_000, apart_ms=20_000)
    await log.fold()
    assert (await compare(log.stack)).differences == []


@pytest.mark.parametrize(
    ("contest", "subject"),
    [("rated", b"r\0\0\0"), ("rated", b"r\0\0\1"), ("ordered", b"r\0\0\2"), ("plain", b"ssms\0")],
)
async def test_one_doctored_minute_is_found(many_minutes: FoldedLog, contest: str, subject: bytes) -> None:
    log = many_minutes
    key = log.key(f"g1:minutes:{contest}")
    members = [m for m in await log.valkey.call("ZRANGE", key, 0, -1) if m.startswith(subject)]
    head = len(subject) + 4
    for member, other in zip(members[1:3], members[3:5], strict=True):
        async with restored(log, key):
            await log.valkey.call("ZREM", key, member)
            (lost,) = (await compare(log.stack)).differences
            assert (lost.contest, lost.view) == (contest, "nothing")
            await log.valkey.call("ZADD", key, 0, member[:head] + other[head:])
            (wrong,) = (await compare(log.stack)).differences
            assert (wrong.what, wrong.log) == (lost.what, lost.log)
    assert (await compare(log.stack)).equal


@pytest.mark.parametrize(
    ("name", "field", "at", "what"),
    [
        ("counts", "a", 9, "participant a: minute of the last change"),
        ("sources", "sms", 2, "source sms: last change, number of ids, of those held, and of releases"),
        ("figures", "sms\0x", 3, "source sms: id x: figures, and minute of the last change"),
    ],
)
async def test_a_doctored_minute_of_the_last_change_is_found(
    many_minutes: FoldedLog, name: str, field: str, at: int, what: str
) -> None:
    log = many_minutes
    contest = "rated" if name == "counts" else "plain"
    key = log.key(f"g1:{name}:{contest}")
    stored = msgpack.unpackb(await log.valkey.call("HGET", key, field))
    stored[at] += 1
    async with restored(log, key):
        await log.valkey.call("HSET", key, field, msgpack.packb(stored))
        (difference,) = (await compare(log.stack)).differences
    assert difference.what == what


def what_differs(report: VerificationReport) -> list[tuple[str, str, str, str, str]]:
    return [(d.contest, d.participant, d.source, d.log, d.view) for d in report.differences]


async def test_a_right_view_equals_the_fold_of_its_log_as_a_whole_and_by_contest(log: FoldedLog) -> None:
    await log.append(an_hour_of_votes())
    await log.append([Fence(5), a_cast(incarnation=5), a_cast(incarnation=0, vote_id="late")], partition=1)
    await log.fold(0)
    await log.fold(1)
    report = await compare(log.stack)
    assert report.differences == []
    assert report.equal
    assert +Counter(report.outcomes) == {"counted": 40 + 13 + 40 + MANY + 1, "overruled": 27}
    assert report.ids == sum(report.outcomes.values())
    assert (report.fenced, report.duplicates, report.quarantined) == (1, 40, 2)
    assert report.events == sum(position.offset for position in report.positions.values())
    of_one = await compare(log.stack, "another")
    assert of_one.equal
    assert {name: contest.participants for name, contest in of_one.contests.items()} == {
        "another": {"a": {"c-free": 40}}
    }


async def test_processes_side_by_side_find_what_one_finds(log: FoldedLog) -> None:
    await log.append(all_that_happens())
    await log.append([*an_hour_of_votes(), *all_that_happens(start=100)], partition=1)
    await log.fold(0)
    await log.fold(1)
    await log.valkey.call("HDEL", log.key("g1:counts:rated"), "a")
    alone, beside = await compare(log.stack), await compare_in_parallel(log.stack)
    assert alone.difference_count
    assert replace(beside, seconds=0) == replace(alone, seconds=0, differences=ANY)
    assert sorted(beside.differences, key=str) == sorted(alone.differences, key=str)


async def test_a_killed_process_is_reported_with_the_way_out(log: FoldedLog) -> None:
    await log.append(an_hour_of_votes())
    await log.fold()

    async def is_reported() -> bool:
        """Again, if all processes ended before one was killed."""
        comparing = asyncio.create_task(compare_in_parallel(log.stack))
        await eventually(lambda: multiprocessing.active_children() or comparing.done())
        for process in multiprocessing.active_children()[:1]:
            process.kill()
        try:
            await comparing
        except ProcessKilled as killed:
            return "--processes 1" in str(killed)
        return False

    await eventually(is_reported)


async def test_what_is_not_folded_yet_is_no_difference(log: FoldedLog) -> None:
    await log.append(an_hour_of_votes())
    assert (await compare(log.stack)).equal
    await log.fold()
    await log.append(an_hour_of_votes(start=100))
    report = await compare(log.stack)
    assert report.equal
    assert report.outcomes["overruled"] == 27


async def test_a_doctored_count_is_found_and_named(log: FoldedLog) -> None:
    await log.append(an_hour_of_votes())
    await log.fold()
    key = log.key("g1:counts:contest")
    row = msgpack.unpackb(await log.valkey.call("HGET", key, "b"))
    row[1] += 1
    await log.valkey.call("HSET", key, "b", msgpack.packb(row))
    report = await compare(log.stack)
    assert not report.equal
    said, shown = str(row[1] - 1), str(row[1])
    total, more = str(row[1] - 1 + row[4]), str(row[1] + row[4])
    assert what_differs(report) == [
        ("contest", "b", "c-free", said, shown),
        ("contest", "b", "", total, more),
    ]


async def test_votes_and_contests_that_no_log_knows_are_found(many_minutes: FoldedLog) -> None:
    log = many_minutes
    voters, invented = log.key("g1:voters:plain"), log.key("g1:counts:invented")
    field = (await log.valkey.call("HKEYS", voters))[0]
    async with restored(log, voters), restored(log, invented):
        await log.valkey.call("HSET", voters, b"nobody known so far", await log.valkey.call("HGET", voters, field))
        await log.valkey.call("HSET", invented, "a", msgpack.packb([1, 5, 1, 0, 0, 0, 0, 1, 0]))
        report = await compare(log.stack)
    assert {d.contest for d in report.differences} == {"plain", "invented"}
    assert any("nobody" in d.log or d.log == "nothing" for d in report.differences)
    for part in ("sources", "waiting", "voters"):
        stray = log.key(f"g1:{part}:stray")
        async with restored(log, stray):
            await log.valkey.call("COPY", log.key(f"g1:{part}:plain"), stray)
            report = await compare(log.stack)
        assert {difference.contest for difference in report.differences} == {"stray"}, part


async def test_a_view_of_another_log_or_past_its_end_is_found(log: FoldedLog) -> None:
    await log.append([a_cast()])
    await log.fold(0)
    await log.fold(1)
    await log.valkey.call("HSET", log.key("g1:position"), "offset", 99)
    await log.valkey.call("HSET", log.key("g1:position", partition=1), "log", "recreated")
    report = await compare(log.stack)
    assert [(d.what, d.view) for d in report.differences] == [
        ("position", "is at 99"),
        ("id of the log", "recreated"),
    ]


async def test_the_command_ends_with_the_code_of_what_it_found(
    log: FoldedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log.append(an_hour_of_votes())
    await log.fold()
    use_deployment(monkeypatch, log.stack)
    verify = partial(run, "verify", "--data-dir", "none")
    right = await verify()
    assert right.exit_code == 0, right.output
    assert "The views equal the log." in right.stdout
    assert (await verify("no-such-contest")).exit_code == 2
    await log.valkey.call("HSET", log.key("g1:stats"), "fenced", 1000)
    wrong = await verify("--json")
    assert wrong.exit_code == 1
    (difference,) = json.loads(wrong.stdout)["differences"]
    assert (difference["what"], difference["view"]) == ("fenced", "1000")
    assert "tally replay run " in (await verify()).stdout
    assert "difference partition log view" in " ".join((await verify()).stdout.split())
