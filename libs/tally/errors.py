"""Errors with a stable code, a message for a person, and data. `libs.web` alone maps them to HTTP."""

from enum import StrEnum
from typing import Any

from libs.tally.time import timestamp


class TallyError(Exception):
    """Base of all errors meant for a caller.

    `code` is stable snake_case (the table in the API description), `retry_after_s` is not None where trying again
    helps, `data` goes into the answer beside the code. `cause` is for logs and operators: servers' replies,
    addresses and libraries' texts belong there, never into `message`, which any caller may read. `str()` has both.
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
    """The log did not take the record, or its answer did not come in time."""

    code = "log_unavailable"


class ViewsUnavailable(TallyError):
    """The views did not answer, or have not come as far as was asked, in time."""

    code = "views_unavailable"


class LedgerCatchingUp(TallyError):
    """The partition settles earlier votes whose outcome is in doubt, and admits nothing until then."""

    code = "ledger_catching_up"


class Overloaded(TallyError):
    """More requests wait than this process takes on."""

    code = "overloaded"


class NotFound(TallyError):
    """No such record, or another account's."""

    code = "not_found"


class IdempotencyKeyReused(TallyError):
    """The same contest, voter and vote id, but other content."""

    code = "idempotency_key_reused"


class ContestNotRunning(TallyError):
    """Outside the contest's time. Times are microseconds since 1970 UTC."""

    code = "contest_not_running"

    def __init__(self, phase: str, start: int | None, end: int | None) -> None:
        super().__init__(
            f"The contest takes no votes: it is in phase {phase}.",
            phase=str(phase),
            start=timestamp(start),
            end=timestamp(end),
        )


class ParticipantNotVotable(TallyError):
    """The participant is pending or rejected."""

    code = "participant_not_votable"


class VoteDoesNotFit(TallyError):
    """The contest takes votes of another kind, or with other values; `pointer` (RFC 6901) names the member."""

    code = "validation_failed"

    def __init__(self, pointer: str, message: str) -> None:
        super().__init__(f"{pointer}: {message}", errors=[{"pointer": pointer, "message": message}])


class VoteRemovalNotAllowed(TallyError):
    """The contest does not allow it, or the vote is a paid one, or voided."""

    code = "vote_removal_not_allowed"


class ContestFinal(TallyError):
    """It would change the result of a contest that is closed; reopening it comes first."""

    code = "contest_final"


class AnonymousVotingDisabled(TallyError):
    code = "anonymous_voting_disabled"


class MobileOnly(TallyError):
    code = "mobile_only"


class SecretErased(TallyError):
    """The contest's secret was destroyed: which votes are whose cannot be told any more, for good."""

    code = "gone"

    def __init__(self, contest: str) -> None:
        super().__init__(f"The secret of contest {contest} was destroyed: nobody can tell whose votes are whose.")


class LimitScope(StrEnum):
    """What a limit bounds: the votes of one voter for a participant, in the contest, or of one address."""

    PARTICIPANT = "participant"
    CONTEST = "contest"
    IP = "ip"


class LimitReached(TallyError):
    """The vote would exceed a limit, and is refused whole. `code` tells which: `<scope>_limit_reached`.

    Where the allowance renews, trying again helps from `next_free_vote_at` on; `now` is the ledger's clock (us).
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
