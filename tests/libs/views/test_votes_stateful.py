"""Random voters, contests and operations, step by step: the views hold what a plain count of the log finds."""

from collections import Counter

import pytest
from redis import Redis

from libs.tally.voter_ledger import VoteStatus
from tests.libs.views.lua_ledger import SMALL, SMALL_PREFIX, LuaLedger, folded, load
from tests.libs.views.random_voting import Voting

SEEDS = 40


@pytest.mark.parametrize("part", range(4))
def test_the_count_is_right(part: int, valkey_address: str, namespace: str) -> None:
    with Redis.from_url(valkey_address) as redis:
        load(redis)
        load(redis, SMALL_PREFIX, SMALL)
        ledger = LuaLedger(redis, namespace, SMALL_PREFIX if part % 2 else "")
        for seed in range(part, SEEDS, 4):
            try:
                Voting(ledger, seed).run()
            except AssertionError as error:
                raise AssertionError(f"seed {seed}") from error
            finally:
                ledger.forget()


def test_the_schedules_are_rich(valkey_address: str, namespace: str) -> None:
    """Every outcome of a vote occurs, so that the agreement means something."""
    seen: Counter[str] = Counter()
    with Redis.from_url(valkey_address) as redis:
        load(redis)
        ledger = LuaLedger(redis, namespace)
        for seed in range(36):
            voting = Voting(ledger, seed)
            voting.run()
            tally = folded(voting.log)
            contest = tally.contests["contest"]
            votes = [vote for standing in contest.voters.values() for vote in standing.votes.values()]
            seen.update(status.name for status in VoteStatus if contest.ids[status])
            seen["duplicates"] += tally.duplicates > 0
            seen["fenced"] += tally.fenced > 0
            seen["periods"] += any(vote.epoch > 0 for vote in votes)
            seen["inherited periods"] += any(vote.epoch != vote.cast.epoch for vote in votes)
            seen["spilled"] += any(len(standing.votes) > 8 for standing in contest.voters.values())
            seen["reopened"] += contest.reopened > 0
            seen["held"] += any(source.held for source in contest.sources.values())
            ledger.forget()
    statuses = "COUNTED", "REMOVED", "REPLACED"
    others = "duplicates", "fenced", "periods", "inherited periods", "spilled", "reopened", "held"
    assert all(seen[what] for what in statuses + others), seen
