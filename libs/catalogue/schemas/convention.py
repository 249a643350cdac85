"""Schemas of a schedule, its days and venues, and of timeslots."""

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
    in_order,
    require_unique,
)
from libs.contracts.validation import explained

PartId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=64,
        pattern=explained(r"^[^\x00-\x1f\x7f]+$", "must not contain control characters"),
        description="Chosen by the account; unique in the list. Timeslots refer to it.",
    ),
]


class Day(Members):
    id: PartId
    title: Title = None
    bottom_text: str | None = Field(None, description="The line below the title.")
    top_text: str | None = Field(None, description="Legacy: the line above the title.")
    start: Timestamp | None = Field(None, description="Start of the day.")
    end: Timestamp | None = Field(None, description="End of the day.")

    _in_order = model_validator(mode="after")(in_order)


class Venue(Members):
    id: PartId
    title: Title = None
    description: Description = None
    position: int | None = Field(None, description="Place among the venues.")
    style: Style = Field({})
    article_key: str | None = Field(None, description="Legacy: key of an article.")
    navigation: FreeForm = Field({}, description="Legacy: the target of a tap; free-form.")


class SearchHelp(Members):
    term: str | None = Field(None, description="Legacy: the search term.")
    icon_id: str | None = Field(None, description="Legacy: key of an image.")


SearchHelps = Annotated[
    list[SearchHelp],
    Field(
        description="Legacy: suggested searches. Their terms are those of `search_terms` in a timeslot and of "
        "`search_help` in a schedule: a change of one changes the other, and terms that stay keep their icons."
    ),
]


class ScheduleStyle(Members):
    """The style of a schedule; other members are stored unchanged."""

    model_config = ConfigDict(extra="allow")
    ignored: ClassVar[frozenset[str]] = frozenset()

    alpha: float | None = Field(None, description="Opacity.")
    letter_spacing: float | None = Field(None, description="Space between letters.")
    max_lines: int | None = Field(None, description="Maximum number of lines of text.")
    sub_styles: Items = Field([], description="Styles of the parts; free-form.")


class Convention(Record):
    """A schedule holds days, venues and timeslots."""

    title: Title = None
    start: Timestamp | None = Field(None, description="Start of the schedule.")
    end: Timestamp | None = Field(None, description="End of the schedule.")
    days: list[Day] = Field([], description="The days. A day with timeslots cannot be removed.")
    venues: list[Venue] = Field([], description="The venues. A venue with timeslots cannot be removed.")
    search_help: Items = Field(
        [],
        description="Suggested searches: texts, or objects with a `term`; otherwise free-form. The terms are "
        "those of the legacy `search_helps`.",
    )
    style: ScheduleStyle = Field(default_factory=ScheduleStyle, description="The style.")
    custom_data: CustomData = Field({})
    search_helps: SearchHelps = Field([])

    _in_order = model_validator(mode="after")(in_order)

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        require_unique("id of days", [day.id for day in self.days])
        require_unique("id of venues", [venue.id for venue in self.venues])
        return self


class Timeslot(Record):
    """An entry of a schedule, on a day and at a venue."""

    article: str | None = Field(None, description="Key of an article.")
    image: str | None = Field(None, description="Key of an image.")
    day_id: str | None = Field(None, description="Id of a day of the schedule.")
    venue_id: str | None = Field(None, description="Id of a venue of the schedule.")
    title: Title = None
    description: Description = None
    time_text: str | None = Field(None, description="The time in words.")
    start: Timestamp | None = Field(None, description="Start of the timeslot.")
    end: Timestamp | None = Field(None, description="End of the timeslot.")
    navigation: Navigation = Field({})
    search_terms: list[str] = Field(
        [], description="Search terms that find the timeslot; the same as those of the legacy `search_helps`."
    )
    style: Style = Field({})
    custom_data: CustomData = Field({})
    search_helps: SearchHelps = Field([])

    _in_order = model_validator(mode="after")(in_order)
