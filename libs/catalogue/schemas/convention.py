"""A schedule, with its days and venues."""

from typing import Annotated, ClassVar, Self

from pydantic import ConfigDict, Field, model_validator

from libs.catalogue.schemas.base import (
    CustomData,
    Description,
    FreeForm,
    Items,
    Members,
    Navigation,
    Record,
    Style,
    Timestamp,
    Title,
    refuse_disorder,
    refuse_doubles,
)

PartId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=64,
        pattern=r"^[^\x00-\x1f\x7f]+$",
        description="The account's own; once in the list. Timeslots refer to it.",
    ),
]


class Day(Members):
    id: PartId
    title: Title = None
    bottom_text: str | None = Field(None, description="The line below the title.")
    top_text: str | None = Field(None, description="Legacy: the line above the title.")
    start: Timestamp | None = Field(None, description="When the day begins.")
    end: Timestamp | None = Field(None, description="When the day ends.")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        refuse_disorder(self.start, self.end)
        return self


class Venue(Members):
    id: PartId
    title: Title = None
    description: Description = None
    position: int | None = Field(None, description="Its place among the venues.")
    style: Style = Field({})
    article_key: str | None = Field(None, description="Legacy: key of an article.")
    navigation: FreeForm = Field({}, description="Legacy: where a tap leads; free-form.")


class SearchHelp(Members):
    term: str | None = Field(None, description="Legacy: what is searched for.")
    icon_id: str | None = Field(None, description="Legacy: key of an image.")


SearchHelps = Annotated[list[SearchHelp], Field(description="Legacy: what searches are offered.")]


class ScheduleStyle(Members):
    """Other members are kept as they are."""

    model_config = ConfigDict(extra="allow")
    ignored: ClassVar[frozenset[str]] = frozenset()

    alpha: float | None = Field(None, description="Opacity.")
    letter_spacing: float | None = Field(None, description="Space between letters.")
    max_lines: int | None = Field(None, description="Lines of text shown at most.")
    sub_styles: Items = Field([], description="Styles of its parts; free-form.")


class Convention(Record):
    """A schedule holds days, venues and timeslots."""

    title: Title = None
    start: Timestamp | None = Field(None, description="When it begins.")
    end: Timestamp | None = Field(None, description="When it ends.")
    days: list[Day] = Field([], description="A day with timeslots cannot be taken out.")
    venues: list[Venue] = Field([], description="A venue with timeslots cannot be taken out.")
    search_help: Items = Field([], description="What searches are offered; free-form.")
    style: ScheduleStyle = Field(default_factory=ScheduleStyle, description="How it is drawn.")
    custom_data: CustomData = Field({})
    search_helps: SearchHelps = Field([])

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
    title: Title = None
    description: Description = None
    time_text: str | None = Field(None, description="When it is, in words.")
    start: Timestamp | None = Field(None, description="When it begins.")
    end: Timestamp | None = Field(None, description="When it ends.")
    navigation: Navigation = Field({})
    search_terms: list[str] = Field([], description="Words that it is found by.")
    style: Style = Field({})
    custom_data: CustomData = Field({})
    search_helps: SearchHelps = Field([])

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        refuse_disorder(self.start, self.end)
        return self
