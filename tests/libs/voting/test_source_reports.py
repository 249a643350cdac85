"""Reports of external sources with unknown appends, and around the closing."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any, cast

import orjson
import pytest

from libs.catalogue.contests.closing_record import closed
from libs.catalogue.contests.contest_mapper import contest_of, sources_of
from libs.contracts.catalogue_events import ContestRecords, Stored
from libs.contracts.log_records import Appended
from libs.contracts.topics import VotesLog, source_log_key, votes_topic
from libs.tally.counts import VoteSums
from libs.tally.errors import AppendUnknown, ContestFinal, NotAppended, NotFound, ViewsUnavailable
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.voting import source_reports
from libs.voting.source_reports import SourceReport, SourceReporter
from tests.support.builders.folded_log import PARTITIONS, FoldedLog, folded_log

REPORT = SourceReport("one", None, (("A", 5, 4, 3),))


def stored(key: str, **document: Any) -> Stored:
    return Stored(key, 1, 1, 1, 1, "contest", orjson.dumps(document).decode())


CONFIG = ContestRecords(
    version=1,
    contest=stored("contest"),
    participants=(stored("p"),),
    sources=(stored("contest~sms", mapping={"A": "p"}),),
)


def a_closed(config: ContestRecords) -> ContestRecords:
    """As it stands after its closing; what is registered may change afterwards."""
    contest = contest_of("account", config)
    assert contest is not None
    assert config.contest is not None
    document = closed(config.contest.document, contest, {}, sources_of(config), 1)
    return replace(config, contest=stored("contest", **document))


@dataclass
class Desk:
    """A reporter over a log that is folded at each append."""

    log: FoldedLog
    partition: int
    config: ContestRecords = CONFIG
    fails: Exception | None = None
    lost: bool = False

    @property
    def reporter(self) -> SourceReporter:
        return SourceReporter(VotesLog("any", PARTITIONS), self.log.views, cast(CatalogueViews, self), self)

    async def contest_config(self, account: str, contest: str) -> ContestRecords:
        return self.config

    async def append(self, topic: str, partition: int, value: bytes, key: bytes | None = None) -> Appended:
        assert (partition, key) == (self.partition, b"contest:sms")
        if not self.lost:
            await self.log.append([value], self.partition)
            await self.log.fold(self.partition)
        if self.fails is not None:
            raise self.fails
        position = await self.log.views.position(partition)
        assert position is not None
        return Appended(partition, position.offset - 1, exact=True)

    async def figures(self) -> dict[str, VoteSums]:
        counts = await self.log.views.counts(self.partition, "contest")
        return dict(counts.sources["sms"].figures) if counts and "sms" in counts.sources else {}


@pytest.fixture
async def context(kafka: str, valkey_address: str, namespace: str) -> AsyncIterator[Desk]:
    async with folded_log(kafka, valkey_address, namespace) as log:
        partition = votes_topic("any", PARTITIONS).partition_of(source_log_key("contest", "sms"))
        await log.fold(partition)
        yield Desk(log, partition)


async def send(context: Desk, report: SourceReport = REPORT) -> source_reports.Folded:
    return await context.reporter.report("account", "contest", "sms", report)


async def test_a_report_that_landed_unacknowledged_is_answered_by_the_fold(context: Desk) -> None:
    context.fails = AppendUnknown("no answer")
    folded = await send(context)
    assert not folded.replayed
    assert await context.figures() == {"A": VoteSums(5, 4, 3)}


async def test_a_report_whose_outcome_is_unknown_is_safe_to_send_again(
    context: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    context.fails, context.lost = AppendUnknown("no answer"), True
    with monkeypatch.context() as impatient:
        impatient.setattr(source_reports, "FOLD_WAIT_S", 0.1)
        with pytest.raises(ViewsUnavailable, match="same report_id") as raised:
            await send(context)
    assert raised.value.retry_after_s is not None
    context.fails, context.lost = None, False
    folded = await send(context)
    assert not folded.replayed
    assert await context.figures() == {"A": VoteSums(5, 4, 3)}


async def test_a_definite_failure_says_so_and_leaves_nothing(context: Desk) -> None:
    context.fails, context.lost = NotAppended("full", retry_after_s=1), True
    with pytest.raises(NotAppended):
        await send(context)
    assert await context.figures() == {}


async def test_until_its_close_a_source_reports_by_what_its_contest_was_closed_with(context: Desk) -> None:
    at_the_close = a_closed(CONFIG)
    later = stored("contest~sms", mapping={}, mode="delta")
    context.config = replace(at_the_close, sources=(later, stored("contest~radio")))
    await send(context)
    folded = await send(context, replace(REPORT, report_id="two"))
    assert folded.mapping == {"A": "p"}
    assert await context.figures() == {"A": VoteSums(5, 4, 3)}
    with pytest.raises(ContestFinal):
        await context.reporter.report("account", "contest", "radio", REPORT)
    context.config = replace(at_the_close, sources=(stored("contest~sms", retired=True),))
    with pytest.raises(NotFound):
        await send(context, replace(REPORT, report_id="three"))
