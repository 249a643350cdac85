"""What the counts are shown as, for the OpenAPI document; `record.py` and `public_record.py` make it."""

from typing import Any

from pydantic import BaseModel, Field

HIDDEN = "Null while hidden."
SOURCE = "Free votes are `c-free`, paid ones `c-paid`; external sources have names of their own."
CONTEST = "Key of the contest."
CHANGES = "For each interval by how much it changed; less than nothing where votes were taken back."
TIME: dict[str, Any] = {"format": "date-time"}


class Counted(BaseModel):
    """Votes and voters."""

    count: int = Field(description="Votes.")
    anonymous_voter_count: int = Field(description="Distinct voters who are anonymous.")
    unique_voter_count: int = Field(
        description="Distinct voters of either kind, of all who voted: those whose votes were all for "
        "participants rejected later are among them, though their votes are not in `count`."
    )


class SubRatingSums(BaseModel):
    """What the ratings come to."""

    sum: float = Field(description="Of all ratings that count.")
    average: float | None = Field(description="To six digits; null without ratings.")


class RatingSums(SubRatingSums):
    """The ratings that count; each is one vote."""

    sub_ratings: dict[str, SubRatingSums] = Field(description="By id of the sub-rating.")


RATING = Field(None, description="In contests of type rating only.")


class SourceCount(Counted):
    """What one source gave a participant."""

    source: str = Field(description=SOURCE, examples=["c-free", "c-paid"])
    mapped_id: str | None = Field(
        None, description="The participant's id at an external source; there only, an entry for each."
    )


class ParticipantCount(Counted):
    """Of all sources in the total."""

    rating: RatingSums | None = RATING
    vote_sources: list[SourceCount] | None = Field(None, description="With `sources=true` only.")


class TotalVoteSource(Counted):
    """What one source gave approved participants. An internal one's distinct voters include those of others."""

    source: str = Field(description=SOURCE, examples=["c-free", "c-paid"])
    title: str = Field(description="Shown to people.")
    is_in_total: bool = Field(description="Whether its votes are part of the counts.")
    is_internal: bool = Field(description="Of votes cast here, not reported from elsewhere.")
    updated: str = Field(
        description="Of an internal source, the time of the contest's last counted event; of an external one, "
        "that of its last report, or of its registration.",
        json_schema_extra=TIME,
    )


class VoteCount(Counted):
    """The counts of a contest: every approved participant is there, zero included."""

    contest_key: str = Field(description=CONTEST)
    contest_type: str = Field(description="What voting is here.", examples=["voteonly", "rating"])
    created: str = Field(description="When the contest was created.", json_schema_extra=TIME)
    updated: str = Field(
        description="Time of the last counted event; before there is one, when the contest was created.",
        json_schema_extra=TIME,
    )
    rating: RatingSums | None = RATING
    participants: dict[str, ParticipantCount] = Field(description="By participant key.")
    total_vote_sources: list[TotalVoteSource] | None = Field(None, description="With `sources=true` only.")


class TimelineOfSource(BaseModel):
    """What changed of what one source gave a participant."""

    source: str = Field(description=SOURCE, examples=["c-free", "c-paid"])
    count: list[int] = Field(description=CHANGES)


class TimelineOfParticipant(BaseModel):
    """What changed of one participant."""

    participant_key: str = Field(description="Key of the participant.")
    count: list[int] = Field(description="Votes of all sources in the total. " + CHANGES)
    sources: list[TimelineOfSource] = Field(description="By source.")


class TimelineTotals(BaseModel):
    """What changed of votes and voters."""

    count: list[int] = Field(description="Votes. " + CHANGES)
    unique_voter_count: list[int] = Field(description="Distinct voters. " + CHANGES)
    anonymous_voter_count: list[int] = Field(description="Those of them who are anonymous. " + CHANGES)


class TimelineOfTotalSource(TimelineTotals):
    """What changed of what one source gave approved participants."""

    source: str = Field(description=SOURCE, examples=["c-free", "c-paid"])
    title: str = Field(description="Shown to people.")
    is_in_total: bool = Field(description="Whether its votes are part of the counts.")
    is_internal: bool = Field(description="Of votes cast here, not reported from elsewhere.")


class TimelineRecord(TimelineTotals):
    """How a contest's counts came about. Over all intervals since the first vote each list adds up to the number
    of the same name in the contest's counts.
    """

    contest_key: str = Field(description=CONTEST)
    interval: int = Field(description="Seconds. Intervals begin at multiples of it since 1970 UTC.")
    from_: str = Field(alias="from", description="When the first interval begins.", json_schema_extra=TIME)
    to: str = Field(description="When the last interval ends.", json_schema_extra=TIME)
    updated: str = Field(
        description="Time of the last counted event; before there is one, when the contest was created.",
        json_schema_extra=TIME,
    )
    participants: list[TimelineOfParticipant] = Field(description="Approved ones, by running number.")
    sources: list[TimelineOfTotalSource] = Field(description="Of all approved participants.")


class ImageKey(BaseModel):
    """Where a picture is: at `/media/image/<key>`."""

    key: str = Field(description="Key of the image.")


class PublicParticipant(BaseModel):
    """One who takes part, as everybody may see it."""

    participant_key: str = Field(description="Key of the participant.")
    title: str | None = Field(description="Shown to people.")
    image: ImageKey | None = Field(description="The participant's picture.")
    rank: int | None = Field(description="By votes, from 1, whatever the order; equal ones share it. " + HIDDEN)
    count: int | None = Field(description=HIDDEN)
    share: float | None = Field(description="Of the contest's votes; 0 while there are none. " + HIDDEN)


class PublicResultsRecord(BaseModel):
    """Approved participants in `participant_order`, `limit_result_amount` at most, none where `owner_only`."""

    contest_key: str = Field(description=CONTEST)
    phase: str = Field(description="Where the contest stands now.", examples=["announced", "running", "finished"])
    final: bool = Field(description="Nothing but a reopening changes the counts any more.")
    participants: list[PublicParticipant] = Field(description="In their order.")
    count: int | None = Field(description="Of all participants, listed or not. " + HIDDEN)
    updated: str = Field(
        description="Time of the last counted event; while hidden, of the last change to the contest's records.",
        json_schema_extra=TIME,
    )
