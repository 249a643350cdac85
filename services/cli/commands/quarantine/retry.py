"""Retries quarantined records: finds those that this version can fold, and rebuilds their partitions."""

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from libs.audit.log_fold import without_gc
from libs.contracts.catalogue import catalogue_codec
from libs.contracts.codec import Codec, Undecodable, vote_codec
from libs.contracts.purchases import purchases_codec
from libs.deployment.deployment import Deployment
from libs.monitoring.projection_names import Fold
from libs.views.fold_items import POISON, fold_item
from services.cli.commands.quarantine.records import Quarantined
from services.cli.commands.replay.context import open_replay_context
from services.cli.commands.replay.job import Job, Rebuilt
from services.cli.commands.replay.projections import ProjectionName
from services.cli.commands.replay.targets import Target

CODECS: Final[dict[Fold, Codec[Any]]] = {
    Fold.PURCHASES: purchases_codec,
    Fold.CATALOGUE: catalogue_codec,
    Fold.TEST: catalogue_codec,
}
PARALLEL: Final = 4


@dataclass(frozen=True, slots=True)
class Trial:
    """A record, and the reason why this version cannot fold it either; None if it can."""

    one: Quarantined
    reason: str | None

    @property
    def foldable(self) -> bool:
        return self.reason is None


def try_again(one: Quarantined) -> Trial:
    return Trial(one, _reason(one))


@dataclass(slots=True)
class Chosen:
    """Partitions to rebuild, by fold, and the foldable dropped records that prevent rebuilding others."""

    partitions: dict[Fold, set[int]] = field(default_factory=lambda: defaultdict(set))
    forbidding: list[Quarantined] = field(default_factory=list)


def choose(trials: Sequence[Trial]) -> Chosen:
    """Choose the partitions with a foldable undecided record and without a foldable dropped one."""
    chosen = Chosen()
    foldable = [trial.one for trial in trials if trial.foldable]
    for one in foldable:
        if one.drop is None:
            chosen.partitions[one.fold].add(one.partition)
    for one in foldable:
        if one.drop is not None and one.partition in chosen.partitions[one.fold]:
            chosen.forbidding.append(one)
    for one in chosen.forbidding:
        chosen.partitions[one.fold].discard(one.partition)
    return chosen


async def rebuild(stack: Deployment, chosen: Chosen, *, accept: bool, quiet: bool) -> AsyncIterator[Rebuilt]:
    """Rebuild the partitions in a new generation and swap it in once verified. Raises as `Job.run`."""
    async with open_replay_context(stack) as context:
        for fold, partitions in chosen.partitions.items():
            if partitions:
                target = Target(ProjectionName(fold), partitions=partitions)
                job = Job(context.valkey, context.reader, stack, target, parallel=PARALLEL, quiet=quiet)
                with without_gc():
                    yield await job.run(accept=accept)


def _reason(one: Quarantined) -> str | None:
    if one.fold is Fold.VOTES:
        kind, *rest = fold_item(vote_codec.decode(one.value), one.record.offset, one.record.timestamp)
        return str(rest[-1]) if kind == POISON else None
    event = CODECS[one.fold].decode(one.value)
    return event.reason if isinstance(event, Undecodable) else None
