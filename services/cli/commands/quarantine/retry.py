"""Retries quarantined records: finds those that this version can process, and rebuilds their partitions."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from libs.contracts.catalogue_events import catalogue_codec
from libs.contracts.codec import Codec, Undecodable, vote_codec
from libs.contracts.purchase_events import purchases_codec
from libs.deployment.deployment import Deployment
from libs.monitoring.lag import ProjectionName
from libs.replay.job import Job, Rebuilt
from libs.replay.targets import Rebuildable, Target
from libs.views.votes_apply_items import POISON, UNKNOWN, fold_item
from services.cli.commands.quarantine.records import Quarantined
from services.cli.commands.replay import with_titles

CODECS: Final[dict[ProjectionName, Codec[Any]]] = {
    ProjectionName.PURCHASES: purchases_codec,
    ProjectionName.CATALOGUE: catalogue_codec,
    ProjectionName.TEST: catalogue_codec,
}
PARALLEL: Final = 4


@dataclass(frozen=True, slots=True)
class Trial:
    """A record, and the reason why this version cannot process it either; None if it can."""

    record: Quarantined
    reason_now: str | None

    @property
    def processable(self) -> bool:
        return self.reason_now is None


def try_again(one: Quarantined) -> Trial:
    return Trial(one, _reason(one))


@dataclass(frozen=True, slots=True)
class Chosen:
    """Partitions to rebuild, by topic, and the processable dropped records that prevent rebuilding others."""

    partitions: dict[ProjectionName, set[int]]
    forbidding: list[Quarantined]


def choose(trials: Sequence[Trial]) -> Chosen:
    """Choose the partitions with a processable undecided record and without a processable dropped one."""
    processable = [trial.record for trial in trials if trial.processable]
    wanted = {(one.topic, one.partition) for one in processable if one.drop is None}
    forbidding = [one for one in processable if one.drop is not None and (one.topic, one.partition) in wanted]
    wanted -= {(one.topic, one.partition) for one in forbidding}
    partitions = {topic: {number for of, number in wanted if of is topic} for topic in ProjectionName}
    return Chosen({topic: numbers for topic, numbers in partitions.items() if numbers}, forbidding)


async def rebuild(deployment: Deployment, chosen: Chosen, *, accept: bool) -> AsyncIterator[Rebuilt]:
    """Rebuild the partitions in a new generation and swap it in once verified. Raises as `Job.run`."""
    for projection, partitions in chosen.partitions.items():
        target = Target(Rebuildable(projection), partitions=partitions)
        done = await Job(deployment, target, parallel=PARALLEL).run(accept=accept)
        yield await with_titles(deployment, done)


def _reason(one: Quarantined) -> str | None:
    if one.topic is ProjectionName.VOTES:
        kind, *rest = fold_item(vote_codec.decode(one.value()), one.record.offset, one.record.timestamp)
        return str(rest[-1]) if kind in (POISON, UNKNOWN) else None
    event = CODECS[one.topic].decode(one.value())
    return event.reason if isinstance(event, Undecodable) else None
