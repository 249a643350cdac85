"""Replay of the votes log against the live fold of the same log: `python -m tests.benchmarks.bench_replay`.

Votes come in by batches over HTTP; then `tally replay run` folds them into a new generation, verifies and swaps
it, and the projector's own loop folds them into views of its own. `replay_under_load` kills a replay under load.
"""

from libs.contracts.topics import votes_topic
from libs.local_stack.supervisor import Supervisor
from tests.benchmarks.alone import alone
from tests.benchmarks.bench_projector import fold_all
from tests.benchmarks.measurement import OURS, Goal, Measurement, Party, Run, Scale
from tests.benchmarks.replay_under_load import fill, printed, tally
from tests.benchmarks.stack import whole_service
from tests.support.voting import running

LIVE = "live fold"
TIMES_FOR_TENFOLD = 10.5
"""Time for 10 million votes in multiples of that for a million, at most."""


async def measure(scale: Scale) -> list[Measurement]:
    votes = scale.pick(20_000, 1_000_000)
    found, took_s = await replayed(votes)
    if scale.pick(False, False, True):
        more, longer_s = await replayed(10 * votes)
        times = Party(OURS, [Run(longer_s / took_s)])
        tenfold = Measurement(
            f"time for {10 * votes:,} in that for {votes:,}", "×", "lower", times, goals=[Goal(TIMES_FOR_TENFOLD)]
        )
        found = [*found, *more, tenfold]
    return found


async def replayed(votes: int) -> tuple[list[Measurement], float]:
    """Return the figures of a replay of so many votes, and its seconds."""
    async with whole_service() as (supervisor, api):
        contest = await api.contest(participants=10, body=running())
        await fill(contest, votes)
        process = await tally(supervisor, "replay", "run", "--projection", "votes", "--execute")
        [rebuilt] = (await printed(process))["rebuilt"]
        assert rebuilt["swapped"], rebuilt
        live = await live_fold(supervisor)
    rate = rebuilt["events_per_s"]
    rates = Party(OURS, [Run(rate)])
    peer = Party(LIVE, [live], "no verification, no swap")
    name = f"replay of {votes:,} votes"
    return [Measurement(name, "events/s", "higher", rates, [peer], goals=[Goal(1.0, LIVE)])], rebuilt[
        "events"
    ] / rate


async def live_fold(supervisor: Supervisor) -> Run:
    topic = votes_topic(supervisor.stack["namespace"], supervisor.stack["partitions"])
    return await fold_all(supervisor.addresses, topic)


if __name__ == "__main__":
    alone("Replay", measure)
