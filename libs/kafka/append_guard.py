"""Preconditions of appends."""

from typing import Protocol

from libs.tally.errors import TallyError


class LogGuard(Protocol):
    """Checks that the log is the one that this process is configured for."""

    def append_refusal(self) -> TallyError | None:
        """Return the error that forbids appends now, or None."""

    def check_partitions(self, topic: str, found: int) -> None:
        """Raise if a topic's number of partitions differs from the one that keys are partitioned by."""

    def report_shortened(self, topic: str, partition: int) -> None:
        """Report a truncated partition: a record was acknowledged at an offset that an earlier one had."""
