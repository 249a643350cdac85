"""What can be said of a record that was not acknowledged, and of a log that is not what it should be."""

from typing import Final

from libs.tally.errors import LogUnavailable, TallyError

NO_ANSWER: Final = "The log cannot be reached at the moment."
"""All that a caller is told, whatever Kafka or the way to it said."""


class NotAppended(LogUnavailable):
    """Definite: the record is not in the log and never will be. It may be sent again as it is."""


class AppendUnknown(LogUnavailable):
    """The record may be in the log, or arrive there later. Only the fold can tell, by its id or a fence."""


class WrongTopic(TallyError):
    """A topic is missing, or its settings would not keep the truth; a service refuses to serve on it."""

    code = "wrong_topic"


class ReplicasAway(LogUnavailable):
    """Fewer replicas of a partition are in sync than must acknowledge a record: until they are back, none is."""


class LogChanged(TallyError):
    """A partition is not the log that the view was folded from: recreated, shortened, or with a hole in it."""

    code = "log_changed"
