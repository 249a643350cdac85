"""Answers of the service as types: what became of a vote, and errors of other requests."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Required, Self, TypedDict

import httpx

from .pending_votes import PendingVote

TRANSIENT: Final = frozenset({408, 425, 429})
"""Statuses besides 5xx that are no answer: the same request may succeed later."""
OF_KEY: Final = frozenset({"unauthorized", "forbidden"})
"""Codes that say something about the API key, and nothing about the vote."""


class Rating(TypedDict, total=False):
    """A rating on the contest's scale."""

    value: Required[float]
    sub_ratings: Mapping[str, float]


class VoteMembers(TypedDict, total=False):
    """A vote as in the API: of a participant, a rating of one, or a ballot of positions."""

    vote_id: str
    participant_key: str
    voter_id: str
    anonymous_id: str
    source: str
    count: int
    platform: str | None
    ip: str | None
    rating: Rating
    positions: Mapping[str, str]


class Voter(TypedDict, total=False):
    """Exactly one of the two: a voter who is signed in, or not."""

    voter_id: str
    anonymous_id: str


@dataclass(frozen=True, slots=True)
class Problem:
    """An error of the service (RFC 9457). `code` is "" if somebody else answered, such as a proxy."""

    status: int
    code: str
    detail: str
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """All members of the answer, such as `limit`, `used` and `next_free_vote_at`."""
    retry_after_s: float = 0.0

    @classmethod
    def of(cls, status: int, body: object, retry_after: str | None = None) -> Self:
        data = body if isinstance(body, dict) else {}
        detail = str(data.get("detail") or f"The answer had the status {status}.")
        return cls(status, str(data.get("code") or ""), detail, data, seconds(retry_after))

    @property
    def is_transient(self) -> bool:
        """True if the same request may succeed later."""
        return self.status >= 500 or self.status in TRANSIENT

    @property
    def decides(self) -> bool:
        """True if the service has judged the vote itself."""
        return bool(self.code) and self.code not in OF_KEY and not self.is_transient


def seconds(retry_after: str | None) -> float:
    """Return the header's seconds, 0 without any. A date is none: devices' clocks are hours off."""
    return float(retry_after) if retry_after and retry_after.strip().isdecimal() else 0.0


@dataclass(frozen=True, slots=True)
class Accepted:
    """The vote is recorded, and counts."""

    vote: PendingVote
    answer: Mapping[str, Any]
    """`remaining`, `next_free_vote_at`, `receipt`, `choices`, ... as in the API."""
    position: str | None
    """A read of the counts with it as `min_position` includes the vote; of a batch, all its votes."""
    is_replayed: bool
    """True if the vote was recorded before, so that this repeats its first answer."""

    @property
    def receipt(self) -> str:
        """Proves the vote once the contest is sealed; keep it for the voter."""
        return str(self.answer["receipt"])


@dataclass(frozen=True, slots=True)
class Refused:
    """The vote is not recorded: a rule refuses it (status 403 or 409), or the request is wrong (others)."""

    vote: PendingVote
    problem: Problem

    @property
    def code(self) -> str:
        return self.problem.code

    @property
    def is_by_rule(self) -> bool:
        """True if the voter should read why; else the program is wrong."""
        return self.problem.status in (403, 409)


@dataclass(frozen=True, slots=True)
class Undecided:
    """Nobody knows yet whether the vote is recorded. It stays stored; go on with `resume(vote)`."""

    vote: PendingVote
    problem: Problem | None = None
    """The last answer; None if there was none. 401 and `forbidden`: first use another key."""


Outcome = Accepted | Refused | Undecided


def outcome_of(
    vote: PendingVote, status: int, body: Any, problem: Problem | None, position: str | None
) -> Outcome:
    """Return what an answer says about a vote; somebody else's, such as a hotel's log-in page, says nothing."""
    is_own = isinstance(body, dict) and body.get("vote_id") == vote.vote_id and "receipt" in body
    if status in (200, 201) and is_own:
        return Accepted(vote, body, position, is_replayed=status == 200)
    return Refused(vote, problem) if problem is not None and problem.decides else Undecided(vote, problem)


class ApiError(Exception):
    """A request other than a vote was refused."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.status} {problem.code}: {problem.detail}")
        self.problem = problem


class NoAnswer(Exception):
    """No final answer came within the client's patience. The same call may be made again: it takes effect once."""

    def __init__(self, problem: Problem | None) -> None:
        super().__init__("The service cannot be reached." if problem is None else problem.detail)
        self.problem = problem


def json_of(reply: httpx.Response) -> Any:
    """Return the body, None if it is no JSON."""
    try:
        return reply.json()
    except ValueError:
        return None


def problem_of(reply: httpx.Response) -> Problem | None:
    """Return the error of an answer; None of others, which somebody else gave if they are not as expected."""
    if reply.status_code < 400:
        return None
    return Problem.of(reply.status_code, json_of(reply), reply.headers.get("retry-after"))
