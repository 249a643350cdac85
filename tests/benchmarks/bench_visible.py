"""Time from a vote's POST until `vote_updates` includes it: `python -m tests.benchmarks.bench_visible [rounds]`.

One vote after another: with `min_position` (read your own write), and by polling as a dashboard would that asks
again as soon as it is answered.
"""

import statistics
import time

from tests.benchmarks.alone import alone
from tests.benchmarks.measurement import OURS, Goal, Measurement, Party, Run, Scale
from tests.benchmarks.stack import whole_service
from tests.support.clients.voting import Contest, running

POLLING_GOAL_MS = 15.0


async def measure(scale: Scale) -> list[Measurement]:
    votes, found = scale.pick(10, 200), []
    ways = {"with min_position": (at_position, ()), "by polling": (polled, (Goal(POLLING_GOAL_MS),))}
    async with whole_service() as (_, api):
        for name, (visible, goals) in ways.items():
            contest = await api.contest(participants=100, body=running())
            times = [await visible(contest, f"v{number}", number + 1) * 1000 for number in range(votes)]
            run = Run(statistics.median(times), also={"p99 ms": statistics.quantiles(times, n=100)[98]})
            found.append(Measurement(f"{name}: p50", "ms", "lower", Party(OURS, [run]), goals=goals))
    return found


async def at_position(contest: Contest, voter: str, expected: int) -> float:
    begun = time.perf_counter()
    answer = await contest.vote(0, voter)
    counts = await contest.counts(answer.headers["tally-position"])
    assert counts["count"] == expected
    return time.perf_counter() - begun


async def polled(contest: Contest, voter: str, expected: int) -> float:
    begun = time.perf_counter()
    await contest.vote(0, voter)
    while (await contest.counts())["count"] < expected:
        pass
    return time.perf_counter() - begun


if __name__ == "__main__":
    alone("From POST to visible", measure)
