"""Appends reports of external sources to the log, and waits for their fold."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from libs.catalogue.commands import MAX_RECORD_BYTES
from libs.catalogue.contests.closing_record import votes_from
from libs.catalogue.contests.contest_mapper import sources_of
from libs.catalogue.contests.vote_sources import SourceConfig, mapped, source_name, source_of
from libs.catalogue.errors import RecordTooLarge
from libs.catalogue.schemas.contest import Mode
from libs.contracts.catalogue_events import ContestRecords
from libs.contracts.codec import vote_codec
from libs.contracts.log_records import CURRENT, Appender
from libs.contracts.pseudonyms import content_hash
from libs.contracts.topics import VotesLog, source_log_key
from libs.contracts.validation import Problem, ValidationFailed
from libs.tally.errors import AppendUnknown, ContestFinal, IdempotencyKeyReused, NotFound, ViewsUnavailable
from libs.tally.events import SourceReported
from libs.tally.sources import FoldedReport
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.votes.vote_views import VoteViews
from libs.voting.partition_waiting import POLL_S

FOLD_WAIT_S: Final = 5.0
MAX_IDS: Final = 10_000
"""Ids that a source may have in a contest."""
MAX_IDS_PER_REPORT: Final = 250
"""Ids in one report, each of which costs its fold 4 µs of Valkey's time (measured): 1.1 ms in all."""


@dataclass(frozen=True, slots=True)
class SourceReport:
    """A report by a source: `counts` are (id, votes, distinct voters, anonymous ones of them), each id once."""

    report_id: str
    reported_at: int | None
    counts: tuple[tuple[str, int, int, int], ...]
    allow_decrease: bool = False

    @property
    def content(self) -> str:
        """Hash of the report's content, independent of the order of its ids."""
        return content_hash(self.reported_at, self.allow_decrease, *sorted(self.counts))


@dataclass(frozen=True, slots=True)
class Folded:
    """A folded report: its counts are in force, except those of the ids in `decreased`.

    `mapping` is the source's current one, from its ids to participants. `replayed`: the report is a duplicate.
    """

    partition: int
    offset: int
    decreased: frozenset[str]
    mapping: Mapping[str, str]
    replayed: bool


@dataclass(frozen=True, slots=True)
class SourceReporter:
    """Records reports. Each report id is folded once per contest and source, so any report can be sent again."""

    votes: VotesLog
    views: VoteViews
    catalogue: CatalogueViews
    log: Appender

    async def report(self, account: str, contest: str, source: str, report: SourceReport) -> Folded:
        """Record a report, and wait for its fold.

        Raises `NotFound` for a source that is not in use, `IdempotencyKeyReused`, `ContestFinal` after the
        source's close, `ValidationFailed` or `RecordTooLarge` for too many ids, `LogUnavailable` if it certainly
        was not recorded, and `ViewsUnavailable` if it may have been.
        """
        deadline = asyncio.get_running_loop().time() + FOLD_WAIT_S
        config = await self.catalogue.contest_config(account, contest)
        registration = _in_use(config, contest, source)
        key = source_log_key(contest, source)
        assert config.contest is not None
        partition = self.votes.topic_from(votes_from(config.contest.document)).partition_of(key)
        state = await self.views.report(partition, contest, source, report.report_id)
        replayed = state is not None
        if state is None:
            await self._check_open(partition, contest, source, report)
            value = vote_codec.encode(_event(contest, source, registration.mode, report))
            if len(value) > MAX_RECORD_BYTES:
                raise RecordTooLarge("The report is too large: send it in several parts.")
            appended = None
            with suppress(AppendUnknown):
                appended = await self.log.append(self.votes.name, partition, value, key.encode())
            state = await self._fold(partition, contest, source, report.report_id, deadline)
            replayed = appended is not None and appended.exact and appended.offset != state.offset
        if state.content != report.content:
            raise IdempotencyKeyReused(f"The report id {report.report_id} was used for a different report.")
        if state.late:
            raise ContestFinal(
                "The source was closed before this report; after a reopening, send it with a new id."
            )
        return Folded(
            partition,
            state.offset,
            frozenset(state.held),
            mapped(registration, {stored.key for stored in config.participants}),
            replayed,
        )

    async def _check_open(self, partition: int, contest: str, source: str, report: SourceReport) -> None:
        known = await self.views.source(partition, contest, source, {mapped_id for mapped_id, *_ in report.counts})
        if known.closed:
            raise ContestFinal("The source is closed with its contest.")
        if known.ids + known.unknown > MAX_IDS:
            raise ValidationFailed([Problem("/counts", f"a source may report {MAX_IDS:,} ids at most")])

    async def _fold(
        self, partition: int, contest: str, source: str, report_id: str, deadline: float
    ) -> FoldedReport:
        while True:
            with suppress(ViewsUnavailable):
                state = await self.views.report(partition, contest, source, report_id)
                if state is not None:
                    return state
            if asyncio.get_running_loop().time() + POLL_S > deadline:
                unknown = "The report may or may not have been recorded; send it again with the same report_id."
                raise ViewsUnavailable(unknown, retry_after_s=1)
            await asyncio.sleep(POLL_S)


def _in_use(config: ContestRecords, contest: str, source: str) -> SourceConfig:
    """Return the source's configuration in force. Raises `NotFound` and `ContestFinal`."""
    if config.contest is None:
        raise NotFound(f"Contest {contest} not found.")
    in_use = {source_name(stored) for stored in config.sources if not source_of(stored).retired}
    if source not in in_use:
        raise NotFound(f"The contest has no vote source {source}.")
    counting = sources_of(config).get(source)
    if counting is None or counting.retired:
        raise ContestFinal("The contest was closed without this source.")
    return counting


def _event(contest: str, source: str, mode: Mode, report: SourceReport) -> SourceReported:
    return SourceReported(
        contest=contest,
        source=source,
        report_id=report.report_id,
        content=report.content,
        mode=mode,
        allow_decrease=report.allow_decrease,
        reported_at=report.reported_at,
        counts=report.counts,
        actor=CURRENT.get(),
    )
