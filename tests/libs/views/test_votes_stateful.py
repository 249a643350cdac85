"""Random voters, contests and operations, step by step: the views hold what a plain count of the log finds."""

from collections import Counter
from collections.abc import Iterator

from redis import Redis

from libs.tally.voter_ledger import VoteStatus
from tests.libs.views.lua_ledger import SMALL, SMALL_PREFIX, LuaLedger, folded, load
from tests.libs.views.random_voting import Voting

SEEDS = 40
OUTCOMES = (
    *("COUNTED", "REMOVED", "REPLACED", "duplicates", "fenced", "periods", "inherited periods"),
    *("spilled", "reopened", "held"),
)
"""Outcomes that occur in some schedule, so that the agreement means something."""


def test_the_count_is_right(valkey_address: str, namespace: str) -> None:
    seen: Counter[str] = Counter()
    with Redis.from_url(valkey_address) as redis:
        load(redis)
        load(redis, SMALL_PREFIX, SMALL)
        ledgers = [LuaLedger(redis, namespace, prefix) for prefix in ("", SMALL_PREFIX)]
        for seed in range(SEEDS):
            ledger = ledgers[seed // 4 % 2]
            voting = Voting(ledger, seed)
            try:
                voting.run()
            except AssertionError as error:
                raise AssertionError(f"seed {seed}") from error
            finally:
                ledger.forget()
            seen.update(outcomes_of(voting))
    assert all(seen[outcome] for outcome in OUTCOMES), seen


def outcomes_of(voting: Voting) -> Iterator[str]:
    tally = folded(voting.log)
    contest = tally.contests["contest"]
    votes = [vote for standing in contest.voters.values() for vote in standing.votes.values()]
    yield from (status.name for status in VoteStatus if contest.ids[status])
    found = {
        "duplicates": tally.duplicates > 0,
        "fenced": tally.fenced > 0,
        "periods": any(vote.epoch > 0 for vote in votes),
        "inherited periods": any(vote.epoch != vote.cast.epoch for vote in votes),
        "spilled": any(len(standing.votes) > 8 for standing in contest.voters.values()),
        "reopened": contest.reopened > 0,
        "held": any(source.held for source in contest.sources.values()),
    }
    yield from (name for name, occurs in found.items() if occurs)
