"""Errors of the catalogue."""

from collections.abc import Iterable

from libs.contracts.catalogue_events import Ref
from libs.contracts.validation import Problem, ValidationFailed
from libs.tally.errors import NotFound, TallyError


class RecordNotFound(NotFound):
    """The account has no such record; `name` is the resource's in the message."""

    def __init__(self, resource: str, key: str, name: str) -> None:
        super().__init__(f"{name.capitalize()} {key} not found.")
        self.missing = ((resource, key),)


class VersionConflict(TallyError):
    """The record's version differs from the requested one."""

    code = "version_conflict"


class InUse(TallyError):
    """Other records reference the record; `referrers` lists the first hundred."""

    code = "in_use"

    def __init__(self, referrers: Iterable[Ref]) -> None:
        listed = [{"resource": resource, "key": key} for resource, key in referrers]
        super().__init__(
            f"{listed[0]['resource']} {listed[0]['key']} references it."
            if listed
            else "Other records reference it.",
            referrers=listed,
        )


class HasVotes(TallyError):
    """The change would give another meaning to votes that were cast."""

    code = "in_use"


class RecordTooLarge(TallyError):
    """The record, or the command that writes it, is larger than its limit, `max_bytes`."""

    code = "payload_too_large"


class QuotaExceeded(TallyError):
    """The account has stored as much as it may."""

    code = "quota_exceeded"


class UnknownReferences(ValidationFailed):
    """The record references records that do not exist: `missing`."""

    def __init__(self, problems: Iterable[Problem], missing: tuple[Ref, ...]) -> None:
        super().__init__(problems)
        self.missing = missing


class StatusTransition(TallyError):
    """A status cannot change back to pending."""

    code = "status_transition"


class NotClosed(TallyError):
    """Only a closed contest can be reopened, or sealed."""

    code = "status_transition"


class NotSealed(TallyError):
    """Only a sealed contest can be unsealed, or lose its secret."""

    code = "status_transition"


class UnknownKey(TallyError):
    """No API key has this id."""

    code = "not_found"
