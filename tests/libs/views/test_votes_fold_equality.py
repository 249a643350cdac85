"""The Valkey functions fold what `PartitionTally` folds, however the log is cut, repeated and restarted."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from libs.contracts.codec import Undecodable, vote_codec
from libs.contracts.log import Behind, LogRecord, Position
from libs.contracts.topics import votes_topic
from libs.projection.votes import VotesProjection
from libs.tally.events import (
    ContestClosed,
    ContestReopened,
    Event,
    Fence,
    LogCreated,
    Rating,
    SourceReported,
    VoteCast,
    VoteRemoved,
)
from libs.tally.tallies import PartitionTally
from libs.views.addresses import AddressCounters
from libs.views.client import Coalescer, connect
from libs.views.functions import load_functions
from libs.views.packing import digest, text
from libs.views.states import FoldInput
from libs.views.votes import VoteViews
from tests.libs.views.simulation.comparison import described, described_view, differing
from tests.support.builders import NOW, a_cast, a_removal, a_report, content_hash

LARGEST = 2**31 - 1
POISON = [b"{}", b"not json", b'{"type":"Unheard"}', b'{"type":"VoteCast"}', b"1,2", b"null", b"[]"]
UNFOLDABLE = [
    replace(a_cast(), choices=(("a", 1), ("b", 2))),
    replace(a_cast(), choices=()),
    replace(a_cast(), choices=(), form="ballot"),
    replace(a_cast(), choices=(("a", 1), ("a", 2)), form="ballot"),
    replace(a_cast(), form="rating"),
    replace(a_cast(), choices=(("a", 2),), form="rating", rating=Rating(1)),
    replace(a_cast(), rating=Rating(1)),
    replace(a_cast(), form="rating", rating=Rating(2**31)),
    replace(a_removal(), incarnation=2**60),
    replace(a_removal(), content="short"),
    replace(a_report(), report_id="a\0b"),
    replace(a_report(), counts=(("x", -1, 0, 0),)),
    replace(a_report(), counts=(("x", 2**44, 0, 0),)),
    ContestClosed("contest", 0),
    ContestClosed("contest", 1, ""),
    ContestReopened("", 1),
    replace(a_cast(), content="short"),
    replace(a_cast(), voter="no base64 at all"),
    replace(a_cast(), choices=(("", 1),)),
    replace(a_cast(), choices=(("a", 0),)),
    replace(a_cast(), choices=(("a", 2**24),)),
    replace(a_cast(), contest="a\0b"),
    replace(a_cast(), accepted_at=2**60),
    replace(a_cast(), max_contest=2**31),
    replace(a_cast(), max_participant=-2),
    replace(a_cast(), remaining_contest=2**31),
    replace(a_cast(), epoch=2**28),
    replace(a_cast(), incarnation=2**60),
    Fence(2**60),
    Fence(2**50, after=2**60),
]

limits = st.sampled_from([-1, 0, 1, 2, 5, 9, 40, LARGEST])
participants = st.sampled_from(["a", "b", "a:b", "é", "p" * 40])
counts = st.sampled_from([1, 1, 2, 3, 1_000_000])
casts = st.builds(
    lambda voter, anonymous, **rest: a_cast(voter=f"{voter}{anonymous}", anonymous=anonymous, **rest),
    voter=st.sampled_from(["v", "v", "v", "w", "x"]),
    anonymous=st.booleans(),
    contest=st.sampled_from(["one", "one", "one", "two:é"]),
    vote_id=st.integers(0, 40).map(str),
    content=st.integers(0, 3).map(content_hash),
    source=st.sampled_from(["c-free", "c-paid"]),
    choices=st.tuples(st.tuples(participants, counts)),
    accepted_at=st.integers(NOW, NOW + 10**9),
    incarnation=st.sampled_from([0] * 10 + [1, 1, 2, 2, 2**50]),
    max_participant=limits,
    max_contest=limits,
    epoch=st.sampled_from([0, 0, 0, 1, 77]),
    remaining_participant=st.none() | st.integers(0, LARGEST),
    remaining_contest=st.none() | st.integers(0, LARGEST),
    next_free_vote_at=st.none() | st.just(NOW + 5),
)  # fmt: skip
fences = st.builds(
    Fence,
    incarnation=st.sampled_from([0, 1, 2, 3, 2**50]),
    after=st.none() | st.sampled_from([0, 1, 2]),
    run=st.none() | st.just("a run"),
)
others = st.sampled_from([*POISON, *map(vote_codec.encode, [*UNFOLDABLE, LogCreated("again")])])
contests = st.sampled_from(["one", "one", "one", "two:é"])
removals = st.builds(
    lambda voter, anonymous, **rest: a_removal(voter=f"{voter}{anonymous}", anonymous=anonymous, **rest),
    voter=st.sampled_from(["v", "v", "v", "w"]),
    anonymous=st.booleans(),
    contest=contests,
    content=st.integers(0, 3).map(content_hash),
    source=st.sampled_from(["c-free", "c-paid"]),
    incarnation=st.sampled_from([0] * 10 + [1, 2]),
    removed_at=st.integers(NOW, NOW + 10**9),
)
figures = st.tuples(st.sampled_from(["x", "y", "é", "1"]), *[st.integers(0, 9) | st.just(2**44 - 1)] * 3)
reports = st.builds(
    a_report,
    contest=contests,
    source=st.sampled_from(["sms", "tv"]),
    mode=st.sampled_from(["cumulative", "cumulative", "delta"]),
    allow_decrease=st.sampled_from([False, False, True]),
    counts=st.lists(figures, max_size=4).map(tuple),
)
marks = st.builds(
    ContestClosed, contests, st.sampled_from([1, 1, 2, 3]), st.none() | st.sampled_from(["sms", "tv"])
) | st.builds(ContestReopened, contests, st.sampled_from([1, 2, 2, 3]))
palettes = st.lists(
    st.one_of(*[casts] * 10, removals, removals, reports, reports, marks, fences, fences, others),
    min_size=1,
    max_size=12,
)


def some_changes(rng: Random, cast: VoteCast) -> dict[str, Any]:
    """Other limits, sources, forms and participants of the same voter, often; not of what is unfoldable."""
    if cast in UNFOLDABLE or rng.random() < 0.3:
        return {}
    match rng.choice(["plain", "plain", "rating", "rating", "ballot"]):
        case "rating":
            subs = tuple((name, rng.randrange(5) * 500_000) for name in "st" if rng.random() < 0.5)
            return {
                "form": "rating",
                "rating": Rating(rng.randrange(11) * 500_000, subs),
                "choices": ((rng.choice("abc"), 1),),
                "max_participant": rng.choice([1, 1, 1, 2, -1]),
                "max_contest": rng.choice([-1, 2, 15]),
                "source": rng.choice(["c-free", "c-free", "c-paid"]),
            }
        case "ballot":
            places = rng.sample("abcd", rng.randint(1, 3))
            return {
                "form": "ballot",
                "choices": tuple((name, votes) for name, votes in zip(places, [5, 3, 1], strict=False)),
                "max_participant": -1,
                "max_contest": rng.choice([-1, 1, 1, 3]),
            }
    return {
        "max_participant": rng.choice([-1, 1, 2, 4, 7]),
        "max_contest": rng.choice([-1, 3, 8, 15]),
        "source": rng.choice(["c-free", "c-paid"]),
        "choices": ((rng.choice("abc"), rng.choice([1, 1, 2, 5])),),
    }


def a_log(palette: list[Event | bytes], size: int, seed: int) -> list[LogRecord]:
    """`size` records out of the palette, votes under ever other ids; offsets have gaps, append times go back."""
    rng = Random(seed)
    log = [LogRecord(0, 1_000, vote_codec.encode(LogCreated("log")))]
    fences = PartitionTally()
    for _ in range(size):
        event = rng.choice(palette)
        if isinstance(event, ContestClosed) and rng.random() < 0.7:
            continue
        if isinstance(event, Fence) and event not in UNFOLDABLE:
            fences.evolve(event, 0, 0)
        if isinstance(event, VoteCast | VoteRemoved) and event not in UNFOLDABLE and rng.random() < 0.8:
            event = replace(event, incarnation=fences.fence)
        if isinstance(event, VoteCast):
            event = replace(event, vote_id=str(rng.randrange(60)), **some_changes(rng, event))
        elif isinstance(event, VoteRemoved):
            event = replace(event, vote_id=str(rng.randrange(60)))
        elif isinstance(event, SourceReported):
            event = replace(event, report_id=str(rng.randrange(30)))
        value = event if isinstance(event, bytes) else vote_codec.encode(event)
        offset, time_ms = log[-1].offset + rng.choice([1, 1, 1, 2, 9]), log[-1].timestamp_ms + rng.randint(-3, 10)
        log.append(LogRecord(offset, time_ms, value))
    return log


logs = st.builds(a_log, palettes, st.sampled_from([3, 30, 150, 400]), st.integers(0, 2**32))


@pytest.fixture(scope="module")
async def valkey(servers: Any) -> AsyncIterator[Coalescer]:
    connection = Coalescer(connect(servers.addresses.valkey))
    await load_functions(connection)
    yield connection
    await connection.close()


def a_projection(valkey: Coalescer, views: VoteViews) -> VotesProjection:
    return VotesProjection(votes_topic("t", 1), views, AddressCounters(valkey, views._namespace))


def is_poison(record: LogRecord) -> bool:
    event = vote_codec.decode(record.value)
    if isinstance(event, VoteCast | VoteRemoved):
        event = replace(event, vote_id="vote")
    return isinstance(event, Undecodable) or event in UNFOLDABLE


def folded(log: list[LogRecord]) -> PartitionTally:
    tally = PartitionTally()
    for record in log:
        event = vote_codec.decode(record.value)
        if not isinstance(event, Undecodable) and not is_poison(record):
            tally.evolve(event, record.offset, record.timestamp_ms)
    return tally


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(log=logs, data=st.data())
async def test_any_way_to_fold_a_log_gives_the_same_view(
    valkey: Coalescer, log: list[LogRecord], data: st.DataObject
) -> None:
    views = VoteViews(valkey, f"t{uuid.uuid4().hex}")
    projection = a_projection(valkey, views)
    start, at = Position("log", 0), 0
    while at < len(log):
        size = data.draw(st.sampled_from([1, 2, 7, 50, 130, 300]))
        batch = log[at : at + size]
        await projection.fold(0, start, batch)
        match data.draw(st.sampled_from(["on", "on", "on", "repeat", "stale", "ahead", "restart"])):
            case "repeat":
                await projection.fold(0, start, batch)
            case "stale":
                # a zombie with an older position and a batch that ends further on
                further = [*batch[-100:], LogRecord(batch[-1].offset + 1, 0, b"{}")]
                with pytest.raises(Behind):
                    await projection.fold(0, Position("log", -1), further)
            case "ahead":
                ahead = batch[-1].offset + 2
                with pytest.raises(Behind) as behind:
                    await projection.fold(0, Position("log", ahead), [LogRecord(ahead, 0, b"{}")])
                assert behind.value.stored == Position("log", batch[-1].offset + 1)
            case "restart":
                projection = a_projection(valkey, views)
        start, at = await projection.position(0) or start, at + size
        assert start == Position("log", batch[-1].offset + 1)
    await compare(views, log, folded(log))
    await forget(valkey, views)


async def compare(views: VoteViews, log: list[LogRecord], tally: PartitionTally) -> None:
    assert not differing(await described_view(views, 0, {"one", "two:é", "contest"}), described(tally))
    quarantined = await views._valkey.call("HKEYS", f"{views._base(0)}:g1:quarantine")
    assert sorted(map(int, quarantined)) == [record.offset for record in log if is_poison(record)]
    assert (await views.state(0)).quarantined == len(quarantined)
    for name, contest in tally.contests.items():
        for voter, standing in contest.voters.items():
            for vote_id, vote in standing.votes.items():
                seen = await views.lookup(0, name, voter, vote_id)
                assert (seen.status, seen.offset, seen.content) == (vote.status, vote.offset, vote.cast.content)
                assert seen.choices == vote.cast.choices
                assert seen.accepted_at == vote.cast.accepted_at
            assert (await views.lookup(0, name, voter, "never")).status is None
            rows = (await views.allowance(0, name, voter)).used
            used = {(row.participant, row.source, row.epoch): row.votes for row in rows}
            assert used == {key: use.votes for key, use in standing.used.items()}


async def forget(valkey: Coalescer, views: VoteViews) -> None:
    keys = await valkey.call("KEYS", f"{views._namespace}:*")
    if keys:
        await valkey.call("DEL", *keys)


async def test_an_id_is_not_found_astride_the_fields_of_another_record(valkey: Coalescer) -> None:
    views = VoteViews(valkey, f"t{uuid.uuid4().hex}")
    astride = next(name for name in map(str, range(1_000)) if digest(name)[8] < 0x10)
    sought = digest(astride)
    cast = a_cast(content=text(sought[:8]), accepted_at=int.from_bytes(sought[8:], "big") << 24)
    await views.apply(0, Position("log", 0), [FoldInput(cast, 0, 0)], 1)
    assert (await views.lookup(0, cast.contest, cast.voter, astride)).status is None
    await views.apply(0, Position("log", 1), [FoldInput(replace(cast, vote_id=astride), 1, 0)], 2)
    assert (await views.lookup(0, cast.contest, cast.voter, astride)).offset == 1
    await forget(valkey, views)


def test_the_random_logs_are_rich() -> None:
    """Spilling, overruled votes and the rest do come up, so the comparison means something."""
    seen: Counter[str] = Counter()

    @settings(max_examples=300, deadline=None, database=None)
    @given(log=logs)
    def look(log: list[LogRecord]) -> None:
        tally = folded(log)
        voters = [voter for contest in tally.contests.values() for voter in contest.voters.values()]
        seen["spilled"] += any(len(voter.votes) > 8 for voter in voters)
        seen["overruled"] += tally.overruled > 0
        seen["duplicates"] += tally.duplicates > 0
        seen["fenced"] += tally.fenced > 0
        seen["counted behind a fence"] += tally.fence > 0 and any(
            vote.cast.incarnation == tally.fence for voter in voters for vote in voter.votes.values()
        )
        seen["poison"] += any(map(is_poison, log))

    look()
    assert all(seen[what] > 3 for what in ("spilled", "overruled", "duplicates", "fenced", "poison")), seen
    assert seen["counted behind a fence"], seen
