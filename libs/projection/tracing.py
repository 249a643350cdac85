"""Traces of the records that wait for their fold."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from aiokafka import ConsumerRecord

from libs.contracts.log_records import LogRecord
from libs.telemetry.tracing import TRACEPARENT, Tracing


class FoldTraces:
    """Trace contexts of one partition's records, by offset; most records have none."""

    def __init__(self, tracing: Tracing, topic: str, partition: int) -> None:
        self._tracing = tracing
        self._topic = topic
        self._partition = partition
        self._waiting: dict[int, bytes] = {}

    def note(self, records: Iterable[ConsumerRecord[bytes, bytes]]) -> None:
        """Store the trace contexts of fetched records, once per offset."""
        for record in records:
            for name, value in record.headers:
                if name == TRACEPARENT:
                    self._waiting[record.offset] = value

    @contextmanager
    def fold(self, records: Sequence[LogRecord]) -> Iterator[None]:
        """Wrap the fold of consecutive records; if it succeeds, add its span to their traces."""
        if not self._waiting:
            yield
            return
        first, end = records[0].offset, records[-1].offset + 1
        found = {offset: value for offset, value in self._waiting.items() if first <= offset < end}
        with self._tracing.fold(self._topic, self._partition, len(records), found):
            yield
        self._waiting = {offset: value for offset, value in self._waiting.items() if offset >= end}
