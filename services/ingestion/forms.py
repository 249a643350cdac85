"""What voting clients send and are told; the OpenAPI description comes from these models."""

from collections.abc import Callable
from functools import partial
from ipaddress import ip_address
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError, from_json

from libs.contracts.person_ids import Identity
from libs.contracts.validation import Problem, ValidationFailed, faults, pointer
from libs.tally.errors import TallyError
from libs.tally.events import Platform, Source
from libs.web.errors import MalformedJson

MAX_COUNT = 1_000_000
MAX_VOTE_BYTES = 64 << 10
"""Of a vote as JSON, alone or in a batch."""
MAX_SUB_RATINGS = 500
MAX_POSITIONS = 100
"""As many as a contest may have."""
MAX_RATING = 1_000
"""The highest that a contest's scale may go to."""
ADDRESS = {"type": "string", "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]}
ONE_VOTER: Final = "exactly one of voter_id and anonymous_id must be given"
VOTE_ID = r"^[A-Za-z0-9_.:\-]{1,64}$"


def _address(value: str) -> str:
    try:
        ip_address(value)
    except ValueError as error:
        raise PydanticCustomError("address", "must be an IPv4 or IPv6 address") from error
    return value


def _no_dot_segment(value: str) -> str:
    """Clients resolve them in an address: DELETE of such a vote would be DELETE of its contest."""
    if value in (".", ".."):
        raise PydanticCustomError("dot_segment", "must not be . or ..")
    return value


VoteId = Annotated[str, Field(pattern=VOTE_ID), AfterValidator(_no_dot_segment)]
ParticipantKey = Annotated[str, Field(min_length=1, max_length=64)]


def _at_most(most: int) -> BeforeValidator:
    """Refuses a large object before its members are looked at: each that is wrong would be an error of its own."""

    def check(value: object) -> object:
        if isinstance(value, dict) and len(value) > most:
            raise PydanticCustomError("too_many", "must have {most} members at most", {"most": most})
        return value

    return BeforeValidator(check)


Value = Annotated[float, Field(ge=0, le=MAX_RATING)]
SubRatings = Annotated[dict[str, Value], Field(max_length=MAX_SUB_RATINGS), _at_most(MAX_SUB_RATINGS)]
Positions = Annotated[dict[str, ParticipantKey], Field(max_length=MAX_POSITIONS), _at_most(MAX_POSITIONS)]


class RatingForm(BaseModel):
    """A rating, on the scale of the contest; it is kept to the millionth."""

    model_config = ConfigDict(strict=True, extra="forbid")

    value: Value = Field(description="Whole, unless the contest's `step_size` is `fraction`.")
    sub_ratings: SubRatings = Field({}, description="By the ids of the contest's `sub_rating_configs`.")


class VoteForm(BaseModel):
    """One vote. The same id with the same content answers the first acceptance again, counting nothing."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"participant_key": "p1", "voter_id": "voter-1", "platform": "ios"},
                {"participant_key": "p1", "voter_id": "voter-1", "rating": {"value": 4.5}},
                {"voter_id": "voter-1", "positions": {"first": "p2", "second": "p1"}},
            ]
        },
    )

    vote_id: VoteId | None = Field(
        None, description="Unique per contest and voter; a UUIDv7 is made when absent. Same as Idempotency-Key."
    )
    participant_key: ParticipantKey | None = Field(
        None, description="The participant voted for, or rated. Not in ordering contests."
    )
    voter_id: Identity | None = Field(None, description="A signed-in voter; exactly one of this and anonymous_id.")
    anonymous_id: Identity | None = Field(None, description="An anonymous voter, for example a device.")
    source: Source = Field("c-free", description="Free or paid; c-paid needs the permission purchases:write.")
    count: int = Field(1, ge=1, le=MAX_COUNT, description="How many votes to cast at once.")
    platform: Platform | None = Field(None, description="Where the voter is.")
    ip: Annotated[str, AfterValidator(_address), WithJsonSchema(ADDRESS)] | None = Field(
        None, description="The end user's address; absent: no address limit, unless a trusted proxy tells it."
    )

    rating: RatingForm | None = Field(None, description="In rating contests, and there only.")
    positions: Positions | None = Field(
        None, description="In ordering contests, and there only: the participant at each position, by position id."
    )

    @model_validator(mode="after")
    def _one_voter(self) -> Self:
        if (self.voter_id is None) == (self.anonymous_id is None):
            raise PydanticCustomError("one_voter", ONE_VOTER)
        return self


class Choice(BaseModel):
    """Votes for one participant."""

    participant_key: str = Field(description="Key of the participant.")
    count: int = Field(description="Votes.")


class Remaining(BaseModel):
    """What the voter may still cast from this source; null is unlimited."""

    participant: int | None = Field(description="For the participant voted for.")
    contest: int | None = Field(description="In the whole contest.")


class AcceptedVote(BaseModel):
    """In the log, acknowledged by all in-sync replicas."""

    vote_id: str = Field(description="Given, or made here: sent again with it, the vote counts once.")
    contest_key: str = Field(description="Key of the contest.")
    status: Literal["accepted"] = Field(description="It is recorded, and counts.")
    accepted_at: str = Field(description="The time that it is judged by.")
    source: Source = Field(description="Free or paid.")
    choices: list[Choice] = Field(description="What it is for.")
    remaining: Remaining
    next_free_vote_at: str | None = Field(
        description="When the free allowance starts afresh; null where it does not."
    )
    receipt: str = Field(description="Proves the vote once the contest is sealed, and opens `hidden_until_vote`.")


class BatchForm(BaseModel):
    """Up to 10,000 votes; each is decided for itself, those of one voter in their order."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"votes": [{"participant_key": "p1", "voter_id": "voter-1"}]}]},
    )

    votes: list[VoteForm] = Field(max_length=10_000, description="Each as it would be sent alone.")


class BatchItem(BaseModel):
    """201 or 200 with the members of an accepted vote, or an error's status with its code."""

    model_config = ConfigDict(extra="allow")

    status: int = Field(description="What the vote would have been answered with alone.")
    vote_id: str | None = Field(None, description="Given, or made here.")
    code: str | None = Field(None, description="Of an error: as in problems.")
    detail: str | None = Field(None, description="Of an error: for a person.")


class BatchResult(BaseModel):
    """What became of the votes of a batch."""

    results: list[BatchItem] = Field(description="In the order of the votes.")


class VoteStatusAnswer(BaseModel):
    """What became of an accepted vote: first `accepted`, then `counted`, or what the reason says."""

    vote_id: str = Field(description="Unique per contest and voter.")
    contest_key: str = Field(description="Key of the contest.")
    status: Literal["accepted", "counted", "overruled", "removed", "replaced", "voided", "late"] = Field(
        description="What became of it in the log."
    )
    counts: bool = Field(
        description="In the counts now: it is `counted`, and a participant that it is for is approved, or was "
        "when the contest was closed."
    )
    reason: str | None = Field(description="For a person: why it does not count, or not all of it.")
    accepted_at: str | None = Field(description="The time that it was judged by; null where it never came.")
    source: Source | None = Field(description="Free or paid; null where it never came.")
    choices: list[Choice] | None = Field(description="What it was for; null where it never came.")
    position: str | None = Field(description="The vote's Tally-Position, once it is counted.")


class Allowance(BaseModel):
    """Votes used and left of one limit; null is unlimited."""

    used: int = Field(description="Votes that were cast.")
    limit: int | None = Field(description="Votes that may be cast.")
    remaining: int | None = Field(description="Votes that may still be cast.")


class ParticipantAllowance(Allowance):
    """For one participant."""

    participant_key: str = Field(description="Key of the participant.")


class SourceAllowance(BaseModel):
    """Of free votes, or of paid ones."""

    source: Source = Field(description="Free or paid.")
    contest: Allowance = Field(description="In the whole contest.")
    participants: list[ParticipantAllowance] = Field(description="By participant.")


class AllowanceAnswer(BaseModel):
    """What one voter has used and may still cast, counted and pending votes together."""

    contest_key: str = Field(description="Key of the contest.")
    sources: list[SourceAllowance] = Field(description="Free votes, and paid ones.")
    next_free_vote_at: str | None = Field(description="When the free allowance starts afresh; null: not, or now.")


def parse_vote(body: bytes) -> VoteForm:
    """Raises `MalformedJson` or `ValidationFailed`."""
    try:
        return VoteForm.model_validate_json(body)
    except ValidationError as error:
        raise _refusal(error, partial(from_json, body)) from error


def check_vote(value: Any) -> VoteForm | TallyError:
    """A vote from parsed JSON, or why it is none."""
    if not isinstance(value, dict):
        return ValidationFailed([Problem("", "must be an object")])
    try:
        return VoteForm.model_validate(value)
    except ValidationError as error:
        return _refusal(error, lambda: value)


def _refusal(error: ValidationError, parse: Callable[[], Any]) -> TallyError:
    """All that is wrong with what `parse` gives, also that it names no voter, or two."""
    try:
        problems = faults(error)
    except ValidationFailed as too_many:
        return too_many
    if problems[0]["type"] == "json_invalid":
        return MalformedJson(f"The body is not JSON: {problems[0]['msg']}")
    found = [Problem(pointer(*problem["loc"]), problem["msg"]) for problem in problems]
    given = parse()
    if isinstance(given, dict) and (given.get("voter_id") is None) == (given.get("anonymous_id") is None):
        found.append(Problem("", ONE_VOTER))
    return ValidationFailed(dict.fromkeys(found))
