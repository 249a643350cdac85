"""Response models for the OpenAPI document; `vote_updates.py`, `public_results.py` and `timeline_endpoint.py`
build their dictionaries, again with each change of the counts."""

from typing import Any, Final, Literal

from pydantic import BaseModel, Field

from libs.catalogue.contests.corrections import CorrectedMember
from libs.web.documents.openapi import Schema

DETAILED = "Only with `details=true`."
DISPLAYED_NUMBER = (
    "The displayed number: the one that the account has set, else the place in the running order, among all "
    "participants. "
)
CORRECTIONS = (
    "Titles, statuses and the running order, where they were changed after the end. The results have those of the "
    "end. "
)
HIDDEN = "Null while hidden."
SOURCE = "Free votes are `c-free`, paid ones `c-paid`; external sources have names of their own."
CONTEST = "Key of the contest."
CHANGES = "The change in each interval; negative where votes were removed."
TIME: dict[str, Any] = {"format": "date-time"}
COUNT_HEADERS: Final[Schema] = {
    "ETag": {
        "description": "Strong entity tag; also changes with phase, visibility and finality.",
        "schema": {"type": "string"},
    },
    "Tally-Position": {
        "description": "Position in the log up to which votes are counted.",
        "schema": {"type": "string"},
    },
    "Tally-Final": {
        "description": "`final`: only a reopening can still change the counts.",
        "schema": {"type": "string", "enum": ["provisional", "final"]},
    },
}


class Counted(BaseModel):
    """Votes and voters."""

    count: int = Field(description="Votes.")
    anonymous_voter_count: int = Field(description="Distinct voters who are anonymous.")
    unique_voter_count: int = Field(
        description="Distinct voters of either kind. Includes voters whose votes were all for participants "
        "rejected later, though `count` excludes those votes."
    )


class SubRatingSums(BaseModel):
    """Sum and average of ratings."""

    sum: float = Field(description="Sum of all ratings that count.")
    average: float | None = Field(description="Rounded to six digits; null without ratings.")


class RatingSums(SubRatingSums):
    """Sums of the ratings that count; each rating is one vote."""

    distribution: dict[str, int] = Field(
        description="Numbers of ratings by value, rounded half up to a whole number; values over 100 count as "
        "100. Values without ratings are absent."
    )
    sub_ratings: dict[str, SubRatingSums] = Field(description="Sums by sub-rating id.")


RATING = Field(None, description="Only in contests of type rating.")


class SourceCount(Counted):
    """A participant's counts from one source."""

    source: str = Field(description=SOURCE, examples=["c-free", "c-paid"])
    mapped_id: str | None = Field(
        None, description="Only for external sources: the participant's id there; one entry per id."
    )


class ImageKey(BaseModel):
    """An image, served at `/media/image/<key>`."""

    key: str = Field(description="Key of the image.")


class ParticipantCount(Counted):
    """A participant's counts from all sources in the total."""

    title: str | None = Field(None, description="Display name. " + DETAILED)
    image: ImageKey | None = Field(None, description="The participant's picture. " + DETAILED)
    color: str | None = Field(None, description="The chosen colour. " + DETAILED)
    running_number: int | None = Field(None, description="Number in the contest, from 1. " + DETAILED)
    number_string: str | None = Field(None, description=DISPLAYED_NUMBER + DETAILED)
    rating: RatingSums | None = RATING
    vote_sources: list[SourceCount] | None = Field(None, description="Only with `sources=true`.")


class HeldCount(BaseModel):
    """A reported count that does not count yet."""

    mapped_id: str = Field(description="The id in the external source.")
    reason: Literal["unmapped", "decrease"] = Field(description="The reason that it is held.")
    count: int = Field(description="Votes that were reported.")


class SealRecord(BaseModel):
    """The seal of a sealed contest."""

    sha256: str = Field(description="SHA-256 of the certificate.")
    sealed_at: str = Field(description="Time of sealing.", json_schema_extra=TIME)


class CorrectionRecord(BaseModel):
    """A title, a status or the running order that was changed after the contest's end.

    The result keeps those of the end; a changed status, which is listed if it is or was `approved`, waits for the
    contest's reopening. Of the running order only the participants of the result are listed.
    """

    participant_key: str | None = Field(
        description="The participant; null for the contest's own title, and order."
    )
    member: CorrectedMember = Field(description="What was changed.")
    before: str | list[str] | None = Field(
        description="Its value as of the end: of the order, participants' keys."
    )
    after: str | list[str] | None = Field(description="The corrected value.")
    corrected: str = Field(description="Time of the correction.", json_schema_extra=TIME)
    title: str | None = Field(None, description="The participant's title as of the end. Only with an API key.")
    corrected_by: str | None = Field(
        None, description="Who corrected it, such as `key 5f0c9a4e8b7d6c21`. Only with an API key."
    )


class TotalVoteSource(Counted):
    """Approved participants' counts from one source. An internal one's distinct voters include those of others."""

    source: str = Field(description=SOURCE, examples=["c-free", "c-paid"])
    title: str = Field(description="Display name.")
    is_in_total: bool = Field(description="True if its votes are part of the counts.")
    is_internal: bool = Field(
        description="True if its votes are cast here, false if an external source reports them."
    )
    updated: str = Field(
        description="For an internal source the time of the contest's last counted event, for an external one "
        "that of its last report or, without one, of its registration.",
        json_schema_extra=TIME,
    )
    held: list[HeldCount] | None = Field(None, description="Of external sources. " + DETAILED)


class VoteCount(Counted):
    """The counts of a contest, with every approved participant, also those without votes."""

    contest_key: str = Field(description=CONTEST)
    contest_type: str = Field(description="The contest's type.", examples=["voteonly", "rating"])
    title: str | None = Field(None, description="Title of the contest. " + DETAILED)
    image: ImageKey | None = Field(None, description="Picture of the contest. " + DETAILED)
    seal: SealRecord | None = Field(None, description="The seal, null before it. " + DETAILED)
    corrections: list[CorrectionRecord] | None = Field(None, description=CORRECTIONS + DETAILED)
    running_order: list[str] | None = Field(None, description="Participants' keys in running order. " + DETAILED)
    created: str = Field(description="Time of the contest's creation.", json_schema_extra=TIME)
    updated: str = Field(
        description="Time of the last counted event; before the first one, of the contest's creation.",
        json_schema_extra=TIME,
    )
    rating: RatingSums | None = RATING
    participants: dict[str, ParticipantCount] = Field(description="Counts by participant key.")
    total_vote_sources: list[TotalVoteSource] | None = Field(None, description="Only with `sources=true`.")


class TimelineOfSource(BaseModel):
    """Changes of a participant's votes from one source."""

    source: str = Field(description=SOURCE, examples=["c-free", "c-paid"])
    count: list[int] = Field(description=CHANGES)


class TimelineOfRatings(BaseModel):
    """Changes of a participant's ratings; the average at a time is the sum up to it by the number up to it."""

    count: list[int] = Field(description="Ratings. " + CHANGES)
    sum: list[float] = Field(description="Sum of their values. " + CHANGES)


class TimelineOfParticipant(BaseModel):
    """Changes of one participant's votes."""

    participant_key: str = Field(description="Key of the participant.")
    count: list[int] = Field(description="Votes of all sources in the total. " + CHANGES)
    sources: list[TimelineOfSource] = Field(description="Changes per source.")
    rating: TimelineOfRatings | None = Field(None, description="In rating contests only.")


class TimelineTotals(BaseModel):
    """Changes of votes and voters."""

    count: list[int] = Field(description="Votes. " + CHANGES)
    unique_voter_count: list[int] = Field(description="Distinct voters. " + CHANGES)
    anonymous_voter_count: list[int] = Field(description="Distinct voters who are anonymous. " + CHANGES)


class TimelineOfTotalSource(TimelineTotals):
    """Changes of approved participants' counts from one source."""

    source: str = Field(description=SOURCE, examples=["c-free", "c-paid"])
    title: str = Field(description="Display name.")
    is_in_total: bool = Field(description="True if its votes are part of the counts.")
    is_internal: bool = Field(
        description="True if its votes are cast here, false if an external source reports them."
    )


class TimelineRecord(TimelineTotals):
    """Changes of a contest's counts over time. Over all intervals since the first vote each list sums up to the
    number of the same name in the contest's counts.
    """

    contest_key: str = Field(description=CONTEST)
    interval: int = Field(description="Seconds. Intervals begin at multiples of it since 1970 UTC.")
    from_: str = Field(alias="from", description="Start of the first interval.", json_schema_extra=TIME)
    to: str = Field(description="End of the last interval.", json_schema_extra=TIME)
    updated: str = Field(
        description="Time of the last counted event; before the first one, of the contest's creation.",
        json_schema_extra=TIME,
    )
    participants: list[TimelineOfParticipant] = Field(description="Approved participants, by running number.")
    sources: list[TimelineOfTotalSource] = Field(description="Sums over all approved participants, per source.")


class PublicParticipant(BaseModel):
    """A participant in public results."""

    participant_key: str = Field(description="Key of the participant.")
    title: str | None = Field(description="Display name.")
    image: ImageKey | None = Field(description="The participant's picture.")
    rank: int | None = Field(
        description="Rank from 1 by votes, in rating contests by average and then by the number of ratings. Ties "
        "share it. " + HIDDEN
    )
    count: int | None = Field(description="Votes; in rating contests the number of ratings. " + HIDDEN)
    share: float | None = Field(description="Share of the contest's votes; 0 while there are none. " + HIDDEN)
    average: float | None = Field(
        default=None, description="Average of the ratings, in rating contests only; null without any. " + HIDDEN
    )


class PublicResultsRecord(BaseModel):
    """Approved participants in `participant_order`, `limit_result_amount` at most, none if `owner_only`."""

    contest_key: str = Field(description=CONTEST)
    phase: str = Field(description="The contest's current phase.", examples=["announced", "running", "finished"])
    final: bool = Field(description="True if only a reopening can still change the counts.")
    corrections: list[CorrectionRecord] = Field(description=CORRECTIONS.strip())
    participants: list[PublicParticipant] = Field(description="Participants in order.")
    count: int | None = Field(description="Votes of all participants, listed or not. " + HIDDEN)
    updated: str = Field(
        description="Time of the last counted event; while hidden, of the last change to the contest's records.",
        json_schema_extra=TIME,
    )
