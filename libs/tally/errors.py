"""Errors with a stable code, a message for a person, and data. `libs.web` alone maps them to HTTP."""

from typing import Any, ClassVar


class TallyError(Exception):
    """Base of all errors meant for a caller.

    `code` is stable snake_case (the table in the API description), `retry_after_s` is not None where trying again
    helps, `data` goes into the answer beside the code.
    """

    code: ClassVar[str] = "internal_error"

    def __init__(self, message: str, *, retry_after_s: float | None = None, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_s = retry_after_s
        self.data = data


class LogUnavailable(TallyError):
    """The log did not take the record, or its answer did not come in time."""

    code = "log_unavailable"


class ViewsUnavailable(TallyError):
    """The views did not answer, or have not come as far as was asked, in time."""

    code = "views_unavailable"


class LedgerCatchingUp(TallyError):
    """Doubt about earlier votes of this partition is being settled; nothing is admitted until then."""

    code = "ledger_catching_up"


class Overloaded(TallyError):
    """More requests wait than this process takes on."""

    code = "overloaded"
