"""A schedule, with its days and venues."""

from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from libs.catalogue.schemas.base import (
    FreeForm,
    Items,
    Members,
    Record,
    Timestamp,
    refuse_disorder,
    refuse_doubles,
)

PartId = Annotated[str, Field(min_length=1, max_length=64)]


class Day(Members):
    id: PartId
    title: str | None = None
    bottom_text: str | None = None
    start: Timestamp | None = None
    end: Timestamp | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        refuse_disorder(self.start, self.end)
        return self


class Venue(Members):
    id: PartId
    title: str | None = None
    description: str | None = None
    position: int | None = None
    style: FreeForm = Field({})


class ScheduleStyle(Members):
    """Other members are kept as they are."""

    model_config = ConfigDict(extra="allow")

    alpha: float | None = None
    letter_spacing: float | None = None
    max_lines: int | None = None
    sub_styles: Items = Field([])


class Convention(Record):
    """A schedule holds days, venues and timeslots."""

    title: str | None = None
    start: Timestamp | None = None
    end: Timestamp | None = None
    days: list[Day] = Field([])
    venues: list[Venue] = Field([])
    search_help: Items = Field([])
    style: ScheduleStyle = Field(default_factory=ScheduleStyle)
    custom_data: FreeForm = Field({}, description="Free-form.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse_disorder(self.start, self.end)
        refuse_doubles("id of days", [day.id for day in self.days])
        refuse_doubles("id of venues", [venue.id for venue in self.venues])
        return self


class Timeslot(Record):
    """What happens on a day at a venue of a schedule."""

    article: str | None = Field(None, description="Key of an article.")
    image: str | None = Field(None, description="Key of an image.")
    day_id: str | None = Field(None, description="Id of a day of the schedule.")
    venue_id: str | None = Field(None, description="Id of a venue of the schedule.")
    title: str | None = None
    description: str | None = None
    time_text: str | None = None
    start: Timestamp | None = None
    end: Timestamp | None = None
    navigation: FreeForm = Field({})
    search_terms: list[str] = Field([])
    style: FreeForm = Field({})
    custom_data: FreeForm = Field({}, description="Free-form.")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        refuse_disorder(self.start, self.end)
        return self
