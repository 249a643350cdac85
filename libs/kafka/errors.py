"""Errors of appends without acknowledgement, and of logs that are not as required."""

from typing import Final

from libs.tally.errors import LogUnavailable, TallyError

NO_ANSWER: Final = "The log cannot be reached at the moment."
"""Message for callers, whatever the failure; the cause is logged."""


class NotAppended(LogUnavailable):
    """Definite: the record is not in the log and never will be. It may be sent again unchanged."""


class AppendUnknown(LogUnavailable):
    """The record may be in the log, or be appended later. The fold resolves it, by the record's id or a fence."""


class WrongTopic(TallyError):
    """A topic is missing, or its settings could lose or alter events; a service refuses to use it."""

    code = "wrong_topic"


class ReplicasAway(LogUnavailable):
    """A partition has too few in-sync replicas (`min.insync.replicas`); until they are back it takes no record."""


class LogChanged(TallyError):
    """A partition is not the log that the view was folded from: recreated, truncated, or with an offset gap."""

    code = "log_changed"
