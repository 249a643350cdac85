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


async def measure(scale: Scale) -> list[Measurement]:
    measurement, _ = await replayed(scale.pick(20_000, 1_000_000))
    return [measurement]


async def replayed(votes: int) -> tuple[Measurement, float]:
    """Return the rate of a replay of so many votes, and its seconds."""
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
    measurement = Measurement(name, "events/s", "higher", rates, [peer], goals=[Goal(1.0, LIVE)])
    return measurement, rebuilt["events"] / rate


async def live_fold(supervisor: Supervisor) -> Run:
    topic = votes_topic(supervisor.stack["namespace"], supervisor.stack["partitions"])
    return await fold_all(supervisor.addresses, topic)


if __name__ == "__main__":
    alone("Replay", measure)
