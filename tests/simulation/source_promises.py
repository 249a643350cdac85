"""The promises about reports of external sources."""

from collections import defaultdict
from collections.abc import Iterator

from libs.catalogue.contests.closing_record import Closing
from libs.contracts.topics import source_log_key
from libs.tally.errors import ContestFinal
from libs.tally.events import ContestClosed, SourceReported
from libs.voting.source_reports import Folded
from tests.simulation.answers import Reported, demand
from tests.simulation.deployment import SOURCE_GRACE_S
from tests.simulation.logs import Logs
from tests.simulation.observer import latest_clock
from tests.simulation.virtual_loop import BEGIN_S
from tests.simulation.world import World


def check_reports(world: World, logs: Logs) -> None:
    """A report answered 202 counts once, as it was sent; one that was refused at each attempt never counts."""
    sent: dict[tuple[str, str, str], list[Reported]] = defaultdict(list)
    for each in world.reports:
        sent[each.contest, each.source, each.report.report_id].append(each)
    for name, reports in sent.items():
        contest, source, report_id = name
        log = logs.of(source_log_key(contest, source))
        found = [
            (at, event)
            for at, event in enumerate(log.events)
            if isinstance(event, SourceReported) and (event.contest, event.source, event.report_id) == name
        ]
        is_late = not found or log.tally.contests[contest].sources[source].reports[report_id].late
        for each in reports:
            if isinstance(each.result, Folded):
                demand(bool(found), f"{name} was answered 202, and is not in the log")
                at, event = found[0]
                demand(event.content == each.report.content, f"{name} was answered 202 for two contents")
                told = each.result.offset
                demand(told == at, f"{name} was answered 202 at {told}, and is at {at}")
                demand(not is_late, f"{name} was answered 202, and came after the close")
        if all(isinstance(each.result, ContestFinal) for each in reports):
            demand(is_late, f"{name} was refused after the close, and counts")


def _marks(contest: str, closing: Closing, logs: Logs) -> Iterator[tuple[str, int, list[int]]]:
    """Yield each source of a closing, its partition, and the times of its markers (ms)."""
    for name in closing.sources:
        log, mark = logs.of(source_log_key(contest, name)), ContestClosed(contest, closing.seq, name)
        times = [at for event, at in zip(log.events, log.times_ms, strict=True) if event == mark]
        yield name, log.number, times


def check_source_marks(world: World, contest: str, closing: Closing, logs: Logs) -> None:
    """Nobody closes a source while it may report, by the clock of its partition."""
    for name, partition, times in _marks(contest, closing, logs):
        grace = 0 if closing.sources[name].retired else SOURCE_GRACE_S * 1_000_000
        for at in times:
            since = at / 1000 - BEGIN_S - world.deployment.brokers.clock_ahead_s
            latest = latest_clock(world, world.server_of(partition), since) * 1_000_000
            early = closing.end + grace - latest
            demand(early <= 0, f"{name} of {contest} was closed {early} us before it may no longer report")


def demand_source_marks(contest: str, closing: Closing, logs: Logs) -> None:
    """The sources of a closed contest are closed."""
    for name, partition, times in _marks(contest, closing, logs):
        demand(bool(times), f"{contest} is closed, and has no marker of {name} in votes/{partition}")
