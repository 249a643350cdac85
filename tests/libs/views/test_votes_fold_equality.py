"""The Valkey functions fold like `PartitionTally`, for any batches, repetitions and restarts."""

import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis import Redis

from libs.contracts.codec import vote_codec
from libs.contracts.log_records import Behind, LogRecord, Position
from libs.contracts.topics import votes_topic
from libs.projection.votes_projection import VotesProjection
from libs.tally.fold import PartitionTally
from libs.tally.voter_ledger import VoterLedger, VoteStatus
from libs.views.valkey.client import ValkeyClient
from libs.views.votes.address_counters import AddressCounters
from libs.views.votes.serialization import digest, text
from tests.libs.views.lua_ledger import SMALL, SMALL_PREFIX, load
from tests.libs.views.random_logs import folded, is_poison, logs
from tests.simulation.comparison import described, described_view, differing
from tests.support.builders.contests import a_cast, terms_of
from tests.support.clients.intercepted_valkey import InterceptedValkey
from tests.support.clients.vote_views import FoldInput, VoteViews
from tests.support.hypothesis_examples import PROPERTY, examples


@pytest.fixture(scope="module")
def small_functions(servers: Any) -> None:
    with Redis.from_url(servers.addresses.valkey) as redis:
        load(redis, SMALL_PREFIX, SMALL)


class Small(InterceptedValkey):
    """Calls the functions that keep few participants with a voter, and fold few events in one call."""

    async def call(self, *command: Any) -> Any:
        if command[0] in ("FCALL", "FCALL_RO"):
            command = command[0], SMALL_PREFIX + command[1], *command[2:]
        return await super().call(*command)


def a_projection(valkey: ValkeyClient, views: VoteViews) -> VotesProjection:
    return VotesProjection(votes_topic("t", 1), views, AddressCounters(valkey, views._namespace))


@settings(PROPERTY, max_examples=examples(300))
@given(log=logs, data=st.data())
async def test_any_way_to_fold_a_log_gives_the_same_view(
    valkey: ValkeyClient, small_functions: None, log: list[LogRecord], data: st.DataObject
) -> None:
    views = VoteViews(Small(valkey) if data.draw(st.booleans()) else valkey, f"t{uuid.uuid4().hex}", 1)
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
                events = vote_codec.decode_many([record.value for record in further])
                items = [FoldInput(event, record.offset, 0) for event, record in zip(events, further, strict=True)]
                with pytest.raises(Behind):
                    await views.apply(0, Position("log", -1), items, further[-1].offset + 1)
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
                assert seen.terms == terms_of(vote.cast)
            assert (await views.lookup(0, name, voter, "never")).status is None
            rows = (await views.allowance(0, name, voter)).used
            used = {(row.participant, row.source, row.epoch): row.votes for row in rows}
            assert used == {key: use.votes for key, use in standing.used.items()}


async def forget(valkey: ValkeyClient, views: VoteViews) -> None:
    keys = await valkey.call("KEYS", f"{views._namespace}:*")
    if keys:
        await valkey.call("DEL", *keys)


async def test_an_id_is_not_found_astride_the_fields_of_another_record(valkey: ValkeyClient) -> None:
    views = VoteViews(valkey, f"t{uuid.uuid4().hex}", 1)
    astride = next(name for name in map(str, range(1_000)) if digest(name)[8] < 0x10)
    sought = digest(astride)
    cast = a_cast(content=text(sought[:8]), accepted_at=int.from_bytes(sought[8:], "big") << 24)
    await views.apply(0, Position("log", 0), [FoldInput(cast, 0, 0)], 1)
    assert (await views.lookup(0, cast.contest, cast.voter, astride)).status is None
    await views.apply(0, Position("log", 1), [FoldInput(replace(cast, vote_id=astride), 1, 0)], 2)
    assert (await views.lookup(0, cast.contest, cast.voter, astride)).offset == 1
    await forget(valkey, views)


def _latest_epochs(voter: VoterLedger) -> Iterator[int]:
    """The latest allowance period as of each vote."""
    return accumulate((vote.cast.epoch * (vote.cast.source == "c-free") for vote in voter.votes.values()), max)


def test_the_random_logs_are_rich() -> None:
    """Every outcome of a vote, a report or a close marker occurs, so the comparison means something."""
    seen: Counter[str] = Counter()

    @settings(max_examples=300, deadline=None, derandomize=True)
    @given(log=logs)
    def look(log: list[LogRecord]) -> None:
        tally = folded(log)
        contests = tally.contests.values()
        voters = [voter for contest in contests for voter in contest.voters.values()]
        votes = [vote for voter in voters for vote in voter.votes.values()]
        sources = [source for contest in contests for source in contest.sources.values()]
        seen.update({vote.status.name for vote in votes})
        seen["spilled"] += any(len(voter.votes) > 8 for voter in voters)
        seen["duplicates"] += tally.duplicates > 0
        seen["fenced"] += tally.fenced > 0
        seen["counted after a fence"] += tally.fence > 0 and any(
            vote.cast.incarnation == tally.fence for vote in votes
        )
        seen["inherited periods"] += any(vote.epoch != vote.cast.epoch for vote in votes)
        seen["merged periods"] += any(voter.epoch > 2 for voter in voters)
        seen["counted late in the former period"] += any(
            1 < latest == vote.epoch + 1 and vote.status is VoteStatus.COUNTED
            for voter in voters
            for latest, vote in zip(_latest_epochs(voter), voter.votes.values(), strict=True)
        )
        seen["overruled in a period that is over"] += any(
            voter.is_over(vote.cast.source, vote.cast.epoch + 2) and vote.status is VoteStatus.OVERRULED
            for voter in voters
            for vote in voter.votes.values()
        )
        seen["burned ids"] += any(not vote.cast.choices for vote in votes)
        seen["waiting"] += any(contest.waiting for contest in contests)
        seen["waiting voids"] += any(contest.waiting_voids for contest in contests)
        seen["being reopened"] += any(contest.closed < 0 for contest in contests)
        seen["reopened"] += any(contest.reopened for contest in contests)
        seen["held"] += any(source.held for source in sources)
        seen["late reports"] += any(report.late for source in sources for report in source.reports.values())
        seen["poison"] += any(map(is_poison, log))

    look()
    assert {status.name for status in VoteStatus} <= seen.keys()
    assert min(seen.values()) > 1, seen
