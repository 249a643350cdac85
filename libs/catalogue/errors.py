"""Refusals of the catalogue."""

from collections.abc import Iterable

from libs.contracts.catalogue import Ref
from libs.contracts.validation import Problem, ValidationFailed
from libs.tally.errors import TallyError


class VersionConflict(TallyError):
    """The record is not, or no longer, of the version that the caller asked for."""

    code = "version_conflict"


class InUse(TallyError):
    """Others refer to it firmly; `referrers` lists them, the first hundred."""

    code = "in_use"

    def __init__(self, referrers: Iterable[Ref]) -> None:
        listed = [{"resource": resource, "key": key} for resource, key in referrers]
        super().__init__(
            f"{listed[0]['resource']} {listed[0]['key']} refers to it" if listed else "It is referred to.",
            referrers=listed,
        )


class UnknownReferences(ValidationFailed):
    """The record names others that are not there: `missing`."""

    def __init__(self, problems: Iterable[Problem], missing: tuple[Ref, ...]) -> None:
        super().__init__(problems)
        self.missing = missing


class StatusTransition(TallyError):
    """Nothing goes back to pending."""

    code = "status_transition"


class NotClosed(TallyError):
    """Only a closed contest can be reopened, or sealed."""

    code = "status_transition"


class NotSealed(TallyError):
    """Only a sealed contest can be unsealed, or lose its secret."""

    code = "status_transition"


class UnknownKey(TallyError):
    """There is no API key of this id."""

    code = "not_found"
