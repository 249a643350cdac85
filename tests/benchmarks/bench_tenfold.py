"""Replay and verification of ten million votes, the replay against one of a million, in half an hour.

`python -m tests.benchmarks.bench_tenfold`
"""

from tests.benchmarks.alone import alone
from tests.benchmarks.bench_replay import replayed
from tests.benchmarks.measurement import OURS, Goal, Measurement, Party, Run, Scale

GOAL = 10.5
"""Multiple of the smaller replay's time, at most."""
VERIFY_GOAL_S = 180


async def measure(scale: Scale) -> list[Measurement]:
    votes = scale.pick(10_000, 1_000_000)
    _, took_s = await replayed(votes)
    larger, longer_s = await replayed(10 * votes, [Goal(VERIFY_GOAL_S)])
    times = Party(OURS, [Run(longer_s / took_s)])
    name = f"time for {10 * votes:,} votes over that for {votes:,}"
    return [*larger, Measurement(name, "×", "lower", times, goals=[Goal(GOAL)])]


if __name__ == "__main__":
    alone("Replay of ten million votes", measure)
