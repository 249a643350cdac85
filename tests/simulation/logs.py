"""The logs of a schedule: the votes', folded by the reference and counted plainly."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from libs.contracts.codec import Undecodable, vote_codec
from libs.contracts.log_records import LogRecord
from libs.contracts.topics import Topic
from libs.tally.events import Event, LogCreated, VoteCast
from libs.tally.fold import PartitionTally
from tests.simulation.answers import Name
from tests.simulation.naive_fold import PlainCount, Vote, plainly
from tests.simulation.world import World


def records_of(world: World, topic: Topic, number: int) -> list[LogRecord]:
    return world.deployment.log(topic, number).records


@dataclass
class Partition:
    """One partition's log, folded by the reference and counted plainly."""

    number: int
    events: list[Event]
    times_ms: list[int]
    tally: PartitionTally
    counts: dict[str, PlainCount]


class Logs(list[Partition]):
    """The partitions of the votes' log, by number."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.topic = world.votes_topic
        for number in self.topic.numbers:
            records = records_of(world, self.topic, number)
            events: list[Any] = [_or_nothing(vote_codec.decode(record.value)) for record in records]
            times = [record.timestamp_ms for record in records]
            counts = {
                contest: plainly([event for event in events if is_of(event, contest)]) for contest in world.kinds
            }
            self.append(Partition(number, events, times, folded(events, times), counts))

    def of(self, key: str) -> Partition:
        return self[self.topic.partition_of(key)]

    def vote(self, name: Name) -> Vote | None:
        contest, voter, vote_id = name
        return self.of(voter).counts[contest].votes.get((voter, vote_id))

    def cast(self, name: Name) -> VoteCast | None:
        vote = self.vote(name)
        return None if vote is None else vote.cast


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
