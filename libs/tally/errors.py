"""Errors with a stable code, a message for people, and data. Only `libs.web` maps them to HTTP."""

from enum import StrEnum
from typing import Any, Final

from libs.tally.time_conversion import timestamp

RECOVERING: Final = "Temporarily unavailable while the service recovers; retry shortly."


class TallyError(Exception):
    """Base class of all errors that are reported to a caller.

    `code` is stable snake_case (see the table in the API description). `retry_after_s` is set if a retry can
    succeed. `data` is added to the response. `message` is public: server replies, addresses and library texts
    belong in `cause`, which only logs and operators get. `str()` contains both.
    """

    code: str = "internal_error"

    def __init__(
        self,
        message: str,
        *,
        retry_after_s: float | None = None,
        cause: BaseException | str | None = None,
        **data: Any,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_s = retry_after_s
        self.cause = str(cause) or type(cause).__name__ if cause is not None else None
        self.data = data

    def __str__(self) -> str:
        return self.message if self.cause is None else f"{self.message} ({self.cause})"


class LogUnavailable(TallyError):
    """The log rejected the record, or did not acknowledge it in time."""

    code = "log_unavailable"


class NotAppended(LogUnavailable):
    """Definite: the record is not in the log and never will be. It may be sent again unchanged."""


class AppendUnknown(LogUnavailable):
    """The record may be in the log, or be appended later. The fold resolves it, by the record's id or a fence."""


class ViewsUnavailable(TallyError):
    """The views did not answer, or did not reach the requested position, in time."""

    code = "views_unavailable"


class LedgerCatchingUp(TallyError):
    """The partition admits no votes until the outcome of earlier ones in doubt is decided."""

    code = "ledger_catching_up"


class Overloaded(TallyError):
    """The process's queue of waiting requests is full."""

    code = "overloaded"


class NotFound(TallyError):
    """The record does not exist, or belongs to another account."""

    code = "not_found"


class IdempotencyKeyReused(TallyError):
    """The contest, voter and vote id were used with different content."""

    code = "idempotency_key_reused"


class ContestNotRunning(TallyError):
    """The contest is not running. `start` and `end` are microseconds since 1970 UTC."""

    code = "contest_not_running"

    def __init__(self, phase: str, start: int | None, end: int | None) -> None:
        super().__init__(
            f"The contest accepts no votes: it is in phase {phase}, as {_cause(str(phase), start, end)}.",
            phase=str(phase),
            start=timestamp(start),
            end=timestamp(end),
        )


def _cause(phase: str, start: int | None, end: int | None) -> str:
    """Return the reason for which a contest is in a phase without votes, by the member that decides it."""
    if phase == "setup":
        return "publish is not set, or in the future"
    if phase == "announced":
        return "start is not set" if start is None else f"start is {timestamp(start)}"
    return "it was closed" if end is None else f"end is {timestamp(end)}"


class ParticipantNotVotable(TallyError):
    """The participant is pending or rejected."""

    code = "participant_not_votable"


class VoteDoesNotFit(TallyError):
    """The vote's kind or values do not match the contest; `pointer` (RFC 6901) names the member."""

    code = "validation_failed"

    def __init__(self, pointer: str, message: str) -> None:
        super().__init__(f"{pointer}: {message}", errors=[{"pointer": pointer, "message": message}])


class VoteRemovalNotAllowed(TallyError):
    """The contest does not allow removals, or the vote is paid or voided."""

    code = "vote_removal_not_allowed"


class ContestFinal(TallyError):
    """The change would affect the result of a closed contest, which has to be reopened first."""

    code = "contest_final"


class AnonymousVotingDisabled(TallyError):
    code = "anonymous_voting_disabled"


class MobileOnly(TallyError):
    code = "mobile_only"


class SecretErased(TallyError):
    """The contest's secret was destroyed: its votes can never be matched to voters again."""

    code = "gone"

    def __init__(self, contest: str) -> None:
        super().__init__(
            f"The secret of contest {contest} was destroyed: its votes can no longer be matched to voters."
        )


class LimitScope(StrEnum):
    """Scope of a limit: one voter's votes for a participant or in the contest, or the votes of an IP address."""

    PARTICIPANT = "participant"
    CONTEST = "contest"
    IP = "ip"


class LimitReached(TallyError):
    """The vote would exceed a limit; none of it is counted. `code` is `<scope>_limit_reached`.

    If the allowance renews, a retry can succeed from `next_free_vote_at` on; `now` is the ledger's clock (us).
    """

    def __init__(
        self, scope: LimitScope, limit: int, used: int, next_free_vote_at: int | None = None, now: int = 0
    ) -> None:
        renews_in_s = None if next_free_vote_at is None else (next_free_vote_at - now) / 1_000_000
        super().__init__(
            f"This vote would exceed the {scope} limit of {limit}; {used} used.",
            retry_after_s=renews_in_s,
            limit=limit,
            used=used,
            next_free_vote_at=timestamp(next_free_vote_at),
        )
        self.scope = scope
        self.code = f"{scope}_limit_reached"
