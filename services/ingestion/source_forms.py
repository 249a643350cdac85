"""Request and response models of external sources; the OpenAPI document is generated from them."""

from collections import Counter
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from libs.catalogue.schemas.base import Timestamp
from libs.catalogue.schemas.contest import MappedId
from libs.tally.time_conversion import microseconds
from libs.voting.source_reports import MAX_IDS_PER_REPORT, Folded, SourceReport
from services.ingestion.vote_forms import VOTE_ID

MAX_FIGURE = 10**12

Figure = Annotated[int, Field(ge=0, le=MAX_FIGURE)]


class ReportedCount(BaseModel):
    """The counts of one of the source's own ids."""

    model_config = ConfigDict(strict=True, extra="forbid")

    mapped_id: MappedId
    count: Figure = Field(description="Votes.")
    anonymous_voter_count: Figure = Field(0, description="Unique voters who are anonymous.")
    unique_voter_count: Figure = Field(0, description="Distinct voters of either kind.")

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.anonymous_voter_count > self.unique_voter_count:
            raise PydanticCustomError(
                "impossible", "anonymous_voter_count must not be above unique_voter_count, which includes them"
            )
        return self


def _distinct(counts: list[ReportedCount]) -> list[ReportedCount]:
    doubled = [mapped_id for mapped_id, times in Counter(row.mapped_id for row in counts).items() if times > 1]
    if doubled:
        raise PydanticCustomError(
            "doubled", "must name each mapped_id once, not {first} twice", {"first": doubled[0]}
        )
    return counts


class ReportForm(BaseModel):
    """A report: per id the total so far (cumulative sources), or the change since the last report (delta)."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        json_schema_extra={
            "examples": [{"report_id": "2026-05-01T18:00", "counts": [{"mapped_id": "A", "count": 1200}]}]
        },
    )

    report_id: Annotated[str, Field(pattern=VOTE_ID)] = Field(
        description="Idempotency key, unique within the contest and source."
    )
    reported_at: Timestamp | None = Field(
        None, description="When the source read its counts; stored, not evaluated."
    )
    counts: Annotated[list[ReportedCount], AfterValidator(_distinct)] = Field(
        max_length=MAX_IDS_PER_REPORT,
        description="Each id once; send more ids in several reports. May be empty only with allow_decrease.",
    )
    allow_decrease: bool = Field(
        False,
        description="Accept lower counts: those of this report, and all that are held with the reason `decrease`.",
    )

    @model_validator(mode="after")
    def _permits_or_counts(self) -> Self:
        if not self.counts and not self.allow_decrease:
            raise PydanticCustomError("empty", "counts must not be empty without allow_decrease")
        return self

    def report(self) -> SourceReport:
        return SourceReport(
            report_id=self.report_id,
            reported_at=None if self.reported_at is None else microseconds(self.reported_at),
            counts=tuple(
                (row.mapped_id, row.count, row.unique_voter_count, row.anonymous_voter_count)
                for row in self.counts
            ),
            allow_decrease=self.allow_decrease,
        )


class CountedRow(ReportedCount):
    """Counted for a participant."""

    participant_key: str = Field(description="Key of the participant that the id is mapped to.")


class HeldRow(ReportedCount):
    """Held: `unmapped` until its id is mapped; `decrease` until permitted, while the former count applies."""

    reason: Literal["unmapped", "decrease"] = Field(description="The reason that it is held.")


class ReportAnswer(BaseModel):
    """The result of a report, by the current mapping."""

    report_id: str = Field(description="As it was sent.")
    source: str = Field(description="Name of the source.")
    contest_key: str = Field(description="Key of the contest.")
    status: Literal["counted", "partly_held", "held"] = Field(description="`counted` if nothing is held.")
    counted: list[CountedRow] = Field(description="Entries that count.")
    held: list[HeldRow] = Field(description="Entries that do not count yet.")


def answer(contest: str, source: str, form: ReportForm, folded: Folded) -> ReportAnswer:
    counted, held = [], []
    for row in form.counts:
        participant = folded.mapping.get(row.mapped_id)
        if participant is None:
            held.append(HeldRow(**row.model_dump(), reason="unmapped"))
        elif row.mapped_id in folded.decreased:
            held.append(HeldRow(**row.model_dump(), reason="decrease"))
        else:
            counted.append(CountedRow(**row.model_dump(), participant_key=participant))
    status: Literal["counted", "partly_held", "held"] = "counted"
    if held:
        status = "partly_held" if counted else "held"
    return ReportAnswer(
        report_id=form.report_id, source=source, contest_key=contest, status=status, counted=counted, held=held
    )
