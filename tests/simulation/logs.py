"""The logs of a schedule: the votes', folded by the reference and counted plainly."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from libs.contracts.codec import Undecodable, vote_codec
from libs.contracts.topics import votes_topic
from libs.tally.events import Event, LogCreated
from libs.tally.fold import PartitionTally
from tests.simulation.deployment import NAMESPACE
from tests.simulation.naive_fold import PlainCount, plainly
from tests.simulation.world import World


def records_of(world: World, topic: str, number: int) -> Any:
    return world.deployment.brokers.partitions[topic, number].records


@dataclass
class Partition:
    """One partition's log, folded by the reference and counted plainly."""

    number: int
    events: list[Event]
    times_ms: list[int]
    tally: PartitionTally
    counts: dict[str, PlainCount]


def read_partitions(world: World) -> list[Partition]:
    topic, found = votes_topic(NAMESPACE, world.partitions), []
    for number in range(world.partitions):
        records = records_of(world, topic.name, number)
        events: list[Any] = [_or_nothing(vote_codec.decode(record.value)) for record in records]
        times = [record.timestamp_ms for record in records]
        counts = {
            contest: plainly([event for event in events if is_of(event, contest)]) for contest in world.kinds
        }
        found.append(Partition(number, events, times, folded(events, times), counts))
    return found


def _or_nothing(event: Event | Undecodable) -> Event:
    """Return an event, or one without effect in place of what is quarantined."""
    return LogCreated("") if isinstance(event, Undecodable) else event


def is_of(event: Event, contest: str) -> bool:
    return getattr(event, "contest", contest) == contest


def folded(events: Iterable[Event], times_ms: Iterable[int]) -> PartitionTally:
    tally = PartitionTally()
    for offset, (event, at) in enumerate(zip(events, times_ms, strict=False)):
        tally.evolve(event, offset, at)
    return tally
