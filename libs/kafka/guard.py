"""The condition under which a process appends."""

from typing import Protocol

from libs.tally.errors import TallyError


class LogGuard(Protocol):
    """Knows whether the log is the one that this process is set up for."""

    def append_refusal(self) -> TallyError | None:
        """Why nothing may be appended now."""

    def check_partitions(self, topic: str, found: int) -> None:
        """Raise where a topic has another number of partitions than keys are placed by."""

    def report_shortened(self, topic: str, partition: int) -> None:
        """A record was acknowledged at an offset that an earlier one had."""
