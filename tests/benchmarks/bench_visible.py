"""Time from a vote's POST until `vote_updates` includes it, one vote after another.

`python -m tests.benchmarks.bench_visible [votes]`: with `min_position` (read your own write), and by polling as a
dashboard would that asks again as soon as it is answered.
"""

import asyncio
import statistics
import sys
import time

from tests.benchmarks.stack import whole_service
from tests.support.voting import Contest, running


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


async def main(votes: int) -> None:
    async with whole_service() as (_, api):
        for name, measure in (("with min_position", at_position), ("by polling", polled)):
            contest = await api.contest(participants=100, body=running())
            times = [await measure(contest, f"v{number}", number + 1) for number in range(votes)]
            p50, p99 = statistics.median(times), statistics.quantiles(times, n=100)[98]
            print(f"POST to visible {name:18} p50 {p50 * 1000:6.1f} ms   p99 {p99 * 1000:6.1f} ms")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
