"""Errors of logs that are not as required."""

from typing import Final, Self

from libs.tally.errors import LogUnavailable, TallyError

NO_ANSWER: Final = "The log cannot be reached at the moment."
"""Message for callers, whatever the failure; the cause is logged."""


class WrongTopic(TallyError):
    """A topic is missing, or its settings could lose or alter events; a service refuses to use it."""

    code = "wrong_topic"


class TopicMissing(WrongTopic):
    """A topic does not exist yet, or has no first records: `tally topics create` has not run, or has not ended."""


class ReplicasAway(LogUnavailable):
    """A partition has too few in-sync replicas (`min.insync.replicas`); until they are back it takes no record."""


class LogChanged(TallyError):
    """A partition is not the log that the view was folded from: recreated, truncated, or with an offset gap."""

    code = "log_changed"


class LogShortened(LogChanged):
    """A partition lost the records from `first` on, which a view has folded; others may have their offsets."""

    first: int

    @classmethod
    def at(cls, topic: str, partition: int, first: int, why: str) -> Self:
        error = cls(f"{topic}/{partition} is not the log of this view: {why}", topic=topic)
        error.first = first
        return error
