"""Opens writers of the log."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from libs.kafka.settings import KafkaSettings
from libs.kafka.writer import LogGuard, LogWriter
from tests.support.eventually import eventually


@asynccontextmanager
async def open_writer(settings: KafkaSettings, guard: LogGuard | None = None) -> AsyncIterator[LogWriter]:
    """Open a writer that has connected to Kafka."""
    writer = LogWriter(settings, guard=guard)
    await writer.start()
    try:
        await eventually(lambda: writer.ready)
        yield writer
    finally:
        await writer.stop()
