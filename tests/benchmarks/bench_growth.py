"""Cost of an event as contests, participants, votes and renewals grow: `python -m tests.benchmarks.bench_growth`.

The same number of votes is folded twice, by a projector in this process into a Valkey of its own; only their
spread differs. Votes before them are not measured: then many rows exist already. The figure is CPU time, of the
projector, Valkey and the broker, so another load changes it little.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from libs.contracts.topics import Topic, votes_topic
from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import create_topics
from libs.local_stack.servers import Addresses
from tests.benchmarks.alone import alone
from tests.benchmarks.bench_projector import ends_of, fold_all
from tests.benchmarks.measurement import OURS, Goal, Measurement, Party, Run, Scale
from tests.benchmarks.stack import own_servers
from tests.benchmarks.votes_log import Spread, produce

PARTITIONS = 16
FLAT = 1.15
"""Ratio of the costs up to which growth costs nothing."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Two spreads of votes; before the measured ones the large one has `times` as many."""

    name: str
    small: tuple[str, Spread]
    large: tuple[str, Spread]
    times: int = 1


GROWTHS = (
    Growth("contests", ("1", Spread()), ("1,000", Spread(contests=1_000))),
    Growth("participants", ("10", Spread(participants=10)), ("10,000", Spread(participants=10_000))),
    Growth("votes in one contest", ("one part", Spread()), ("four times as many", Spread()), times=4),
    Growth(
        "renewals of a voter", ("10", Spread(each=10, renews=True)), ("1,000", Spread(each=1_000, renews=True))
    ),
)


async def measure(scale: Scale) -> list[Measurement]:
    votes = scale.pick(10_000, 30_000)
    rounds = min(2, scale.rounds)
    found = []
    async with own_servers() as addresses:
        runs = Runs(addresses, iter(range(1_000)))
        await runs.cost(Spread(), votes, votes)  # warms up
        for growth in GROWTHS:
            small: list[Run] = []
            large: list[Run] = []
            for round_ in range(rounds):
                turns = (small, growth.small[1], votes), (large, growth.large[1], votes * growth.times)
                for costs, spread, before in turns[:: -1 if round_ % 2 else 1]:
                    costs.append(await runs.cost(spread, votes, before))
            found.append(measurement(growth, small, large))
    return found


@dataclass(frozen=True, slots=True)
class Runs:
    """Folds of topics of their own, numbered, on the same servers."""

    addresses: Addresses
    numbers: Iterator[int]

    async def cost(self, spread: Spread, votes: int, before: int) -> Run:
        """Return the CPU time per vote, of all processes together, after so many votes before."""
        number = next(self.numbers)
        topic: Topic = votes_topic(f"growth{number}", PARTITIONS)
        settings = KafkaSettings(kafka_bootstrap_servers=self.addresses.kafka)
        await create_topics(settings, [topic])
        await produce(settings, topic, before, spread)
        await fold_all(self.addresses, topic, number)
        folded = sum((await ends_of(settings, topic)).values())
        await produce(settings, topic, votes, spread, before)
        run = await fold_all(self.addresses, topic, number, folded=folded)
        return Run(sum(run.cpu_us.values()), run.cpu_us)


def measurement(growth: Growth, small: list[Run], large: list[Run]) -> Measurement:
    """Compare Tallykeeper with itself, before it grew."""
    before = Party(f"{OURS}, {growth.small[0]}", small)
    name = f"{growth.name}: {growth.small[0]} → {growth.large[0]}"
    goal = Goal(round(1 / FLAT, 2), before.name)
    return Measurement(name, "µs of CPU a vote", "lower", Party(OURS, large), [before], goals=[goal])


if __name__ == "__main__":
    alone("Cost of growth", measure)
