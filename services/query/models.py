"""The vote count record of the specification, for the OpenAPI document; `record.py` makes it."""

from pydantic import BaseModel, Field


class Counted(BaseModel):
    """Votes and voters."""

    count: int = Field(description="Votes.")
    anonymous_voter_count: int = Field(description="Distinct voters who are anonymous.")
    unique_voter_count: int = Field(description="Distinct voters of either kind.")


class VoteSource(Counted):
    """What one source gave a participant."""

    source: str = Field(examples=["c-free", "c-paid"])
    mapped_id: str | None = Field(None, description="The participant's id at an external source; there only.")


class ParticipantCount(Counted):
    vote_sources: list[VoteSource] | None = Field(None, description="With `sources=true` only.")


class TotalVoteSource(Counted):
    """What one source gave the contest. Voters of participants rejected since are among the distinct ones."""

    source: str = Field(examples=["c-free", "c-paid"])
    title: str
    is_in_total: bool
    is_internal: bool
    updated: str = Field(
        description="Time of the contest's last folded event.", json_schema_extra={"format": "date-time"}
    )


class VoteCount(Counted):
    """The counts of a contest: every approved participant is there, zero included."""

    contest_key: str
    contest_type: str
    created: str = Field(json_schema_extra={"format": "date-time"})
    updated: str = Field(
        description="Time of the last folded event; before there is one, when the contest was created.",
        json_schema_extra={"format": "date-time"},
    )
    participants: dict[str, ParticipantCount] = Field(description="By participant key.")
    total_vote_sources: list[TotalVoteSource] | None = Field(None, description="With `sources=true` only.")
