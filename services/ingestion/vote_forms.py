"""Request and response models of voting, of which the OpenAPI document is made, and the commands of forms."""

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
from uuid_utils import uuid7

from libs.contracts.ip_addresses import is_ipv4, network_of
from libs.contracts.pseudonyms import Identity, content_of, pseudonym
from libs.contracts.validation import Problem, ValidationFailed, explained, faults, pointer
from libs.tally.contest import MILLION
from libs.tally.errors import TallyError
from libs.tally.events import Platform, Rating, Source
from libs.tally.vote_commands import CastVote
from libs.voting.contest_cache import ContestCache
from libs.web.errors import MalformedJson

MAX_COUNT = 1_000_000
MAX_SUB_RATINGS = 500
MAX_POSITIONS = 100
"""The most positions that a contest may have."""
MAX_RATING = 1_000
"""The highest value of a contest's rating scale."""
MAX_ADDRESS = 64
ADDRESS = {"anyOf": [{"type": "string", "format": name, "maxLength": MAX_ADDRESS} for name in ("ipv4", "ipv6")]}
ONE_VOTER: Final = "exactly one of voter_id and anonymous_id must be given"
VOTE_ID_TEXT: Final = "must be 1 to 64 of A-Z a-z 0-9 _ . : -, and not . or .."
VOTE_ID = explained(r"^[A-Za-z0-9_.:\-]{1,64}$", VOTE_ID_TEXT)


def _address(value: str) -> str:
    if is_ipv4(value):
        return value
    try:
        ip_address(value if len(value) <= MAX_ADDRESS else "")
    except ValueError as error:
        raise PydanticCustomError("address", "must be an IPv4 or IPv6 address") from error
    return value


def _no_dot_segment(value: str) -> str:
    """Reject path segments that clients resolve: DELETE of such a vote would be DELETE of its contest."""
    if value in (".", ".."):
        raise PydanticCustomError("dot_segment", "must not be . or ..")
    return value


VoteId = Annotated[str, Field(pattern=VOTE_ID), AfterValidator(_no_dot_segment)]
ParticipantKey = Annotated[str, Field(min_length=1, max_length=64)]


def _at_most(most: int) -> BeforeValidator:
    """Reject a large object before its members are validated: each invalid one would be an error of its own."""

    def check(value: object) -> object:
        if isinstance(value, dict) and len(value) > most:
            raise PydanticCustomError("too_many", "must have {most} members at most", {"most": most})
        return value

    return BeforeValidator(check)


Value = Annotated[float, Field(ge=0, le=MAX_RATING)]
SubRatings = Annotated[dict[str, Value], Field(max_length=MAX_SUB_RATINGS), _at_most(MAX_SUB_RATINGS)]
Positions = Annotated[dict[str, ParticipantKey], Field(max_length=MAX_POSITIONS), _at_most(MAX_POSITIONS)]


class RatingForm(BaseModel):
    """A rating on the contest's scale, stored to the millionth."""

    model_config = ConfigDict(strict=True, extra="forbid")

    value: Value = Field(description="An integer, unless the contest's `step_size` is `fraction`.")
    sub_ratings: SubRatings = Field({}, description="Values by id of the contest's `sub_rating_configs`.")


class VoteForm(BaseModel):
    """One vote. Sent again with the same id and content, it gets the first answer and is not counted again."""

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
        None, description="Unique per contest and voter; by default a new UUIDv7. Same as Idempotency-Key."
    )
    participant_key: ParticipantKey | None = Field(
        None, description="The participant voted for or rated. Not in ordering contests."
    )
    voter_id: Identity | None = Field(
        None, description="A signed-in voter's id; send either this or anonymous_id."
    )
    anonymous_id: Identity | None = Field(None, description="An anonymous voter's id, for example of a device.")
    source: Source = Field("c-free", description="Free or paid; c-paid needs the permission purchases:write.")
    count: int = Field(1, ge=1, le=MAX_COUNT, description="Number of votes to cast at once.")
    platform: Platform | None = Field(None, description="The voter's platform.")
    ip: Annotated[str, AfterValidator(_address), WithJsonSchema(ADDRESS)] | None = Field(
        None,
        description="The end user's IP address. By default the one that a trusted proxy sends; without any, the "
        "address limit does not apply.",
    )

    rating: RatingForm | None = Field(None, description="Only in rating contests.")
    positions: Positions | None = Field(
        None, description="Only in ordering contests: participant keys by position id."
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
    """Votes that the voter may still cast from this source; null is unlimited."""

    participant: int | None = Field(description="For the participant voted for.")
    contest: int | None = Field(description="In the whole contest.")


class AcceptedVote(BaseModel):
    """A vote in the log, acknowledged by all in-sync replicas."""

    vote_id: str = Field(description="Sent or generated; a vote sent again with it counts once.")
    contest_key: str = Field(description="Key of the contest.")
    status: Literal["accepted"] = Field(description="Recorded, and will be counted.")
    accepted_at: str = Field(description="Time that the contest's rules are applied at.")
    source: Source = Field(description="Free or paid.")
    choices: list[Choice] = Field(description="The participants voted for.")
    remaining: Remaining
    next_free_vote_at: str | None = Field(
        description="Time of the free allowance's next renewal; null if it does not renew."
    )
    receipt: str = Field(
        description="Proves the vote once the contest is sealed, and shows its voter results that are "
        "`hidden_until_vote`."
    )


class BatchForm(BaseModel):
    """Up to 10,000 votes; each is accepted or refused separately, those of one voter in order."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"votes": [{"participant_key": "p1", "voter_id": "voter-1"}]}]},
    )

    votes: list[VoteForm] = Field(max_length=10_000, description="Votes as in single requests.")


class BatchItem(BaseModel):
    """201 or 200 with the members of an accepted vote, or an error's status and code."""

    model_config = ConfigDict(extra="allow")

    status: int = Field(description="HTTP status that the vote would have received in a request of its own.")
    vote_id: str | None = Field(None, description="Sent or generated.")
    code: str | None = Field(None, description="Error code, as in problem details.")
    detail: str | None = Field(None, description="Error message for people.")


class BatchResult(BaseModel):
    """The results of a batch."""

    results: list[BatchItem] = Field(description="Results in the order of the votes.")


class CastRating(BaseModel):
    """A rating on the contest's scale."""

    value: float = Field(description="The overall rating.")
    sub_ratings: dict[str, float] = Field(description="Values by id of the contest's `sub_rating_configs`.")


class VoteStatusAnswer(BaseModel):
    """The status of a recorded vote: `counted`, or another status with its reason."""

    vote_id: str = Field(description="Unique per contest and voter.")
    contest_key: str = Field(description="Key of the contest.")
    status: Literal["counted", "overruled", "removed", "replaced", "voided", "late"] = Field(
        description="The vote's status in the log."
    )
    counts: bool = Field(
        description="True if the vote is in the counts now: it is `counted`, and a participant voted for is "
        "approved, or was when the contest was closed."
    )
    reason: str | None = Field(description="Explains to people why the vote, or a part of it, does not count.")
    accepted_at: str | None = Field(
        description="Time that the contest's rules were applied at; null if the log holds no such vote."
    )
    source: Source | None = Field(description="Free or paid; null if the log holds no such vote.")
    choices: list[Choice] | None = Field(
        description="The participants voted for; null if the log holds no such vote."
    )
    rating: CastRating | None = Field(description="The rating; null in other contests, and as `choices`.")
    positions: dict[str, str] | None = Field(
        description="The ballot: participant keys by position id; null in other contests, and as `choices`."
    )
    receipt: str | None = Field(
        description="The receipt that the vote was answered with; null if the log holds no such vote."
    )
    position: str | None = Field(description="The vote's Tally-Position.")


class Allowance(BaseModel):
    """Used and remaining votes of one limit; null is unlimited."""

    used: int = Field(description="Votes cast.")
    limit: int | None = Field(description="Votes allowed.")
    remaining: int | None = Field(description="Votes left.")


class ParticipantAllowance(Allowance):
    """The allowance for one participant."""

    participant_key: str = Field(description="Key of the participant.")


class SourceAllowance(BaseModel):
    """The allowance of free or of paid votes."""

    source: Source = Field(description="Free or paid.")
    contest: Allowance = Field(description="In the whole contest.")
    participants: list[ParticipantAllowance] = Field(description="Per approved participant.")


class AllowanceAnswer(BaseModel):
    """Used and remaining votes of one voter, counted and pending votes together."""

    contest_key: str = Field(description="Key of the contest.")
    sources: list[SourceAllowance] = Field(description="Free and paid votes.")
    next_free_vote_at: str | None = Field(
        description="Time of the free allowance's next renewal; null if it does not renew, or is already due."
    )


def parse_vote(body: bytes) -> VoteForm:
    """Parse a vote. Raises `MalformedJson` or `ValidationFailed`."""
    try:
        return VoteForm.model_validate_json(body)
    except ValidationError as error:
        raise _refusal(error, partial(from_json, body)) from error


def check_vote(value: Any) -> VoteForm | TallyError:
    """Validate parsed JSON as a vote; returns the error of an invalid one."""
    if not isinstance(value, dict):
        return ValidationFailed([Problem("", "must be an object")])
    try:
        return VoteForm.model_validate(value)
    except ValidationError as error:
        return _refusal(error, lambda: value)


def _refusal(error: ValidationError, parse: Callable[[], Any]) -> TallyError:
    """Collect all faults of the value that `parse` returns, also a missing or a second voter id."""
    try:
        problems = faults(error, VoteForm)
    except ValidationFailed as too_many:
        return too_many
    if problems[0]["type"] == "json_invalid":
        return MalformedJson(f"The body is not JSON: {problems[0]['msg']}")
    found = [Problem(pointer(*problem["loc"]), problem["msg"]) for problem in problems]
    given = parse()
    if isinstance(given, dict) and (given.get("voter_id") is None) == (given.get("anonymous_id") is None):
        found.append(Problem("", ONE_VOTER))
    return ValidationFailed(dict.fromkeys(found))


def new_vote_id() -> str:
    return str(uuid7())


def voter_pseudonym(secret: bytes, voter_id: str | None, anonymous_id: str | None) -> str:
    """Return the pseudonym of exactly one of the two ids; signed-in "x" and anonymous "x" differ."""
    if voter_id is not None:
        return pseudonym(secret, "voter", voter_id)
    return pseudonym(secret, "anonymous", anonymous_id or "")


async def find_voter(
    contests: ContestCache, account: str, contest: str, voter_id: str | None, anonymous_id: str | None
) -> str:
    """Return the pseudonym of the voter in the query parameters.

    Raises `ValidationFailed`, `NotFound` for the contest, and `SecretErased`.
    """
    form = {"participant_key": "p", "voter_id": voter_id, "anonymous_id": anonymous_id}
    if isinstance(check_vote(form), TallyError):
        message = "send exactly one of voter_id and anonymous_id, of 1 to 256 bytes without control characters"
        raise ValidationFailed([Problem("", message, "voter_id")])
    return voter_pseudonym(await contests.secret(account, contest), voter_id, anonymous_id)


def command(contest: str, secret: bytes, form: VoteForm, vote_id: str, forwarded: str | None) -> CastVote:
    """Build the command of a form; `forwarded` is the IP address to use if the form has none."""
    voter = voter_pseudonym(secret, form.voter_id, form.anonymous_id)
    address = form.ip or forwarded
    rating = None if form.rating is None else _rating(form.rating)
    positions = None if form.positions is None else tuple(sorted(form.positions.items()))
    return CastVote(
        contest=contest,
        voter=voter,
        anonymous=form.anonymous_id is not None,
        vote_id=vote_id,
        content=content_of(voter, form.source, form.participant_key, form.count, rating, positions),
        source=form.source,
        participant=form.participant_key,
        count=form.count,
        rating=rating,
        positions=positions,
        platform=form.platform,
        address=None if address is None else pseudonym(secret, "address", network_of(address)),
    )


def _rating(form: RatingForm) -> Rating:
    """Round to millionths."""
    subs = sorted((name, round(value * MILLION)) for name, value in form.sub_ratings.items())
    return Rating(round(form.value * MILLION), tuple(subs))
