"""Selects the records of an extract."""

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, assert_never

from libs.backup.exported_topics import CODECS
from libs.backup.manifest import ExportedPartition, Request
from libs.contracts.catalogue_events import (
    CatalogueEvent,
    ContestClosing,
    KeyIssued,
    KeyRevoked,
    OperatorActed,
    RecordChanged,
    RecordCreated,
    RecordDeleted,
    RecordsWritten,
    RecordWritten,
    Write,
)
from libs.contracts.codec import Undecodable
from libs.contracts.log_records import LogRecord
from libs.contracts.purchase_events import (
    PurchaseCast,
    PurchaseCountedAgain,
    PurchaseRecorded,
    PurchaseRefunded,
    PurchaseRefused,
    PurchasesEvent,
    PurchaseTakenBack,
    PurchaseUncounted,
    PurchaseUpdated,
)
from libs.contracts.topics import Log
from libs.kafka.reader import Extent, LogReader
from libs.tally.events import (
    ContestClosed,
    ContestReopened,
    Event,
    Fence,
    LogCreated,
    SourceReported,
    VoteCast,
    VoteRemoved,
    VoteRestored,
    VoteVoided,
)


class Choice:
    """Filters a partition by append time and contest; `bought` are the keys of purchases for the contest."""

    def __init__(self, request: Request, kind: str, bought: frozenset[str]) -> None:
        self._request = request
        self._codec = CODECS[kind]
        self._bought = bought

    def of(self, records: Sequence[LogRecord]) -> Sequence[LogRecord]:
        since, until, contest = self._request.since, self._request.until, self._request.contest
        if since is not None:
            records = [record for record in records if record.timestamp_ms * 1000 >= since]
        if until is not None:
            records = [record for record in records if record.timestamp_ms * 1000 < until]
        if contest is None:
            return records
        events = self._codec.decode_many([record.value for record in records])
        pairs = zip(records, events, strict=True)
        return [record for record, event in pairs if self._is_about(contest, event)]

    def _is_about(self, contest: str, event: Any) -> bool:
        return not isinstance(event, Undecodable) and is_about(contest, self._bought, event)


def is_about(contest: str, bought: frozenset[str], event: Event | CatalogueEvent | PurchasesEvent) -> bool:
    """Return whether the event names the contest, or one of the purchases `bought` for it."""
    match event:
        case VoteCast() | VoteRemoved() | VoteVoided() | VoteRestored() | SourceReported():
            return event.contest == contest
        case ContestClosed() | ContestReopened() | ContestClosing():
            return event.contest == contest
        case RecordCreated() | RecordChanged():
            return _names(contest, event)
        case RecordsWritten():
            return any(_names(contest, write) for write in event.writes)
        case RecordDeleted():
            return event.contest == contest or (event.resource, event.key) == ("contests", contest)
        case (
            PurchaseRecorded()
            | PurchaseUpdated()
            | PurchaseRefunded()
            | PurchaseCast()
            | PurchaseUncounted()
            | PurchaseCountedAgain()
            | PurchaseRefused()
            | PurchaseTakenBack()
        ):
            return event.key in bought
        case LogCreated() | Fence() | KeyIssued() | KeyRevoked() | OperatorActed():
            return False
        case _:
            assert_never(event)


def _names(contest: str, written: RecordWritten | Write) -> bool:
    named = written.parent, *written.refs, (written.resource, written.key)
    return written.contest == contest or ("contests", contest) in named


async def bought_for(contest: str, reader: LogReader, topic: Log, part: ExportedPartition) -> frozenset[str]:
    """Return the keys of purchases for the contest: a refund, which may come first, does not name the contest."""
    found: set[str] = set()
    ranges = {part.partition: Extent(part.start, part.end)}
    async with aclosing(reader.records(topic.name, ranges)) as batches:
        async for _, records in batches:
            for event in CODECS["purchases"].decode_many([record.value for record in records]):
                if isinstance(event, PurchaseRecorded) and event.vote and event.vote.contest_key == contest:
                    found.add(event.key)
    return frozenset(found)
