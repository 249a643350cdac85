"""The promises about reports of external sources."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from libs.catalogue.contests.closing_record import Closing
from libs.contracts.topics import source_log_key, votes_topic
from libs.tally.errors import ContestFinal, TallyError
from libs.tally.events import ContestClosed, Event, SourceReported
from libs.tally.fold import PartitionTally
from libs.voting.source_reports import Folded
from tests.simulation.answers import Reported, Violation, demand
from tests.simulation.deployment import NAMESPACE, SOURCE_GRACE_S
from tests.simulation.observer import Observer, latest_clock
from tests.simulation.virtual_loop import BEGIN_S
from tests.support.vote_views import VoteViews

if TYPE_CHECKING:
    from tests.simulation.world import World


def check_reports(world: "World", logs: Mapping[int, tuple[Sequence[Event], PartitionTally]]) -> None:
    """A report answered 202 counts once, as it was sent; one that was refused at each attempt never counts."""
    topic, sent = votes_topic(NAMESPACE, world.partitions), defaultdict[Any, list[Reported]](list)
    for each in world.reports:
        if isinstance(each.result, Exception) and not isinstance(each.result, TallyError):
            raise Violation(f"{each} was answered with a defect") from each.result
        sent[each.contest, each.source, each.report.report_id].append(each)
    for name, reports in sent.items():
        contest, source, report_id = name
        events, tally = logs[topic.partition_of(source_log_key(contest, source))]
        first = next(
            (
                (at, event)
                for at, event in enumerate(events)
                if isinstance(event, SourceReported) and (event.contest, event.source, event.report_id) == name
            ),
            None,
        )
        is_late = first is None or tally.contests[contest].sources[source].reports[report_id].late
        for each in reports:
            if isinstance(each.result, Folded):
                if first is None:
                    raise Violation(f"{name} was answered 202, and is not in the log")
                at, event = first
                demand(event.content == each.report.content, f"{name} was answered 202 for two contents")
                demand(
                    each.result.offset == at, f"{name} was answered 202 at {each.result.offset}, and is at {at}"
                )
                demand(not is_late, f"{name} was answered 202, and came after the close")
        if all(isinstance(each.result, ContestFinal) for each in reports):
            demand(is_late, f"{name} was refused after the close, and counts")


Logs = Mapping[int, Sequence[tuple[Event, int]]]
"""Events with their times (ms), by partition."""


def _marks(world: "World", contest: str, closing: Closing, logs: Logs) -> Iterator[tuple[str, int, list[int]]]:
    """Yield each source of a closing, its partition, and the times of its markers (ms)."""
    for name in closing.sources:
        partition = votes_topic(NAMESPACE, world.partitions).partition_of(source_log_key(contest, name))
        mark = ContestClosed(contest, closing.seq, name)
        yield name, partition, [at for event, at in logs[partition] if event == mark]


def check_source_marks(world: "World", contest: str, closing: Closing, logs: Logs) -> None:
    """Nobody closes a source while it may report, by the clock of its partition."""
    views = VoteViews(Observer(world), NAMESPACE, world.partitions)
    for name, partition, times in _marks(world, contest, closing, logs):
        grace = 0 if closing.sources[name].retired else SOURCE_GRACE_S * 1_000_000
        server = Observer(world).server(views._base(partition))
        for at in times:
            since = at / 1000 - BEGIN_S - world.deployment.brokers.clock_ahead_s
            latest = latest_clock(world, server, since) * 1_000_000
            early = closing.end + grace - latest
            demand(early <= 0, f"{name} of {contest} was closed {early} us before it may no longer report")


def demand_source_marks(world: "World", contest: str, closing: Closing, logs: Logs) -> None:
    """The sources of a closed contest are closed."""
    for name, partition, times in _marks(world, contest, closing, logs):
        demand(bool(times), f"{contest} is closed, and has no marker of {name} in votes/{partition}")
