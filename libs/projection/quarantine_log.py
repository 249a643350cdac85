"""Logs records that a projection quarantines; after a retry the line repeats."""

import logging
from collections.abc import Iterable

from libs.contracts.codec import Undecodable
from libs.contracts.log_records import LogRecord
from libs.contracts.topics import Log

log = logging.getLogger(__name__)


def log_quarantined(topic: Log, partition: int, offset: int, reason: str) -> None:
    log.error("quarantined topic=%s partition=%d offset=%d reason=%s", topic.name, partition, offset, reason)


def log_undecodable(topic: Log, partition: int, entries: Iterable[tuple[LogRecord, object]]) -> None:
    for record, event in entries:
        if isinstance(event, Undecodable):
            log_quarantined(topic, partition, record.offset, event.reason)
