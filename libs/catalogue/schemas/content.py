"""Schemas of articles, with the legacy style object, of feeds, surveys, and schedules with their timeslots."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from libs.catalogue.schemas.base import (
    Address,
    CustomData,
    Description,
    FreeForm,
    Items,
    Key,
    Keys,
    Limit,
    Line,
    Linked,
    Members,
    Navigation,
    Parts,
    Picture,
    Record,
    Style,
    Tags,
    Texts,
    Timestamp,
    Title,
    in_order,
    require_unique,
)
from libs.contracts.limits import ARTICLE_TEXT, OBJECT
from libs.contracts.validation import explained

Colour = Annotated[
    str,
    Field(
        pattern=explained(
            r"^#?([0-9A-Fa-f]{3,4}|[0-9A-Fa-f]{6}|[0-9A-Fa-f]{8})$",
            "must be a colour of 3, 4, 6 or 8 hex digits, such as #ff8800",
        ),
        description="3, 4, 6 or 8 hex digits, with or without `#`.",
        examples=["#ff8800"],
    ),
]


class Sides(Members):
    top: float | None = Field(None, description="At the top.")
    right: float | None = Field(None, description="At the right.")
    bottom: float | None = Field(None, description="At the bottom.")
    left: float | None = Field(None, description="At the left.")


class Corners(Members):
    top_left: float | None = Field(None, description="Radius of the corner.")
    top_right: float | None = Field(None, description="Radius of the corner.")
    bottom_right: float | None = Field(None, description="Radius of the corner.")
    bottom_left: float | None = Field(None, description="Radius of the corner.")


class StyleObject(Members):
    """The style of an element; all members are optional."""

    ignored: ClassVar[frozenset[str]] = frozenset()

    padding: Sides | None = Field(None, description="Inner space.")
    margin: Sides | None = Field(None, description="Outer space.")
    corner_radiuses: Corners | None = Field(None, description="Radii of the corners.")
    width: float | None = Field(None, description="Width.")
    height: float | None = Field(None, description="Height.")
    scale: float | None = Field(None, description="Scale factor.")
    size: float | None = Field(None, description="Size.")
    text_size: float | None = Field(None, description="Text size.")
    elevation: float | None = Field(None, description="Elevation above the background.")
    text_font: Line | None = Field(None, description="Text font.")
    text_style: Line | None = Field(None, description="Text style.")
    image_style: Line | None = Field(None, description="Image style, such as `circle`.")
    gravity: Line | None = Field(None, description="Alignment, such as `center`.")
    modifier: Line | None = Field(None, description="Modifier, such as `normal`.")
    image_crop: Line | None = Field(None, description="Image crop, such as `center_crop`.")
    text_color: Colour | None = Field(None, description="Text colour.")
    icon_tint: Colour | None = Field(None, description="Icon colour.")
    background_color: Colour | None = Field(None, description="Background colour.")
    primary_color: Colour | None = Field(None, description="Primary colour.")
    secondary_color: Colour | None = Field(None, description="Secondary colour.")


Embedded = Annotated[FreeForm | None, AfterValidator(lambda value: value or None)]
"""A free-form object to which legacy reads add an id; an empty one is none, as both read alike with the id."""


class Follow(Members):
    """A button to follow a topic."""

    topic: Line | None = Field(None, description="The followed topic.")
    follow_text: Line | None = Field(None, description="Shown to users who do not follow it.")
    unfollow_text: Line | None = Field(None, description="Shown to users who follow it.")
    style: StyleObject = Field(default_factory=StyleObject, description="The style.")


class ArticleField(Members):
    """A part of a legacy article."""

    field_id: Line | None = Field(None, description="Id chosen by the account.")
    type: Line | None = Field(None, description="Type of the part, such as `text`.")
    text: Annotated[str, ARTICLE_TEXT] | None = Field(None, description="Text of the part.")
    full_screen: bool = Field(False, description="The part fills the screen.")
    scrollable: bool = Field(False, description="The part can be scrolled.")
    link: Address | None = Field(None, description="URL that the part links to.")
    follow: Follow | None = Field(None, description="A topic that can be followed.")
    from_template_key: Key | None = Field(None, description="Key of the part's template.")
    navigation: Navigation = Field({})
    contest_key: Key | None = Field(None, description="Key of a contest.")
    image_id: Key | None = Field(None, description="Key of an image.")
    participant_keys: Keys = Field([], description="Keys of participants.")
    survey_key: Key | None = Field(None, description="Key of a survey.")
    video_id: Line | None = Field(None, description="Id in another system; not checked.")
    web_data_key: Line | None = Field(None, description="Id in another system; not checked.")
    simple_web_data: Annotated[Any, OBJECT] = Field(None, description="Free-form.")
    ad: Annotated[Any, OBJECT] = Field(
        None, description="An advertisement: free-form, stored and shown as written."
    )
    subfields: Items = Field([], description="Parts of this part: free-form, stored and shown as written.")
    video: Embedded = Field(None, description="A video: free-form, stored and shown as written, with `video_id`.")
    web_data: Embedded = Field(
        None, description="Web data: free-form, stored and shown as written, with `web_data_key`."
    )


ArticleType = Literal["content_only", "header", "normal", "splash", "thumbnail"]


class ArticleDraft(Record):
    """The unpublished draft of a legacy article."""

    type: ArticleType = Field("normal", description="Form of display.")
    title: Title = None
    description: Description = None
    navigation: Navigation = Field({})
    image_id: Key | None = Field(None, description="Key of an image.")
    fields: Parts[ArticleField] = Field([], description="The parts of the article.")
    style: StyleObject = Field(default_factory=StyleObject, description="The style.")


class Article(Record):
    """A page of content."""

    title: Title = None
    description: Description = None
    origin_template: Key | None = Field(None, description="Key of the article that is the template of this one.")
    content: Items = Field(
        [],
        description="The parts of the page; free-form. Apart from the legacy `fields`: a change of one does not "
        "change the other.",
    )
    thumbnail: Items = Field([], description="The parts of the thumbnail; free-form.")
    navigation: Navigation = Field({})
    style: Style = Field({})
    thumbnail_style: Style = Field({})
    image: Picture = Field(Linked())
    custom_data: CustomData = Field({})
    tags: Tags = Field([])
    type: ArticleType = Field("normal", description="Legacy: form of display.")
    fields: Parts[ArticleField] = Field(
        [],
        description="Legacy: the parts of the article. Apart from the current `content`: a change of one does not "
        "change the other.",
    )
    draft: ArticleDraft | None = Field(None, description="Legacy: the unpublished draft.")
    is_template: bool = Field(False, description="Legacy: the article is a template for others.")
    publish: Timestamp | None = Field(None, description="Legacy: publication time; unset: at once.")


class NavigationBlock(Members):
    is_scroll: bool = Field(False, description="The entries can be scrolled.")
    nav_list: Items = Field([], description="The entries; free-form.")


class InnerNavigation(Members):
    is_swipe_enabled: bool = Field(False, description="A swipe opens the next entry.")
    location: Line | None = Field(None, description="Position of the navigation, such as `top`.")
    navigation_block: NavigationBlock = Field(default_factory=NavigationBlock, description="The entries.")


class Feed(Record):
    """A list of articles. The server also stores its `pages`."""

    owned: ClassVar[frozenset[str]] = frozenset({"pages"})
    ignored: ClassVar[frozenset[str]] = Record.ignored | owned

    title: Title = None
    divider_height: int | None = Field(None, description="Height of the lines between articles.")
    header: FreeForm = Field(
        {}, description="Shown above the articles; free-form. Apart from the legacy `header_article_key`."
    )
    footer: FreeForm = Field(
        {}, description="Shown below the articles; free-form. Apart from the legacy `footer_article_key`."
    )
    style: Style = Field({})
    custom_data: CustomData = Field({})
    tags: Tags = Field([])
    inner_navigation: InnerNavigation = Field(
        default_factory=InnerNavigation, description="The navigation inside the feed."
    )
    is_followable: bool = Field(False, description="Legacy.")
    is_push_enabled: bool = Field(False, description="Legacy.")
    header_article_key: Key | None = Field(
        None, description="Legacy: key of the article above the others. Apart from the current `header`."
    )
    footer_article_key: Key | None = Field(
        None, description="Legacy: key of the article below the others. Apart from the current `footer`."
    )
    topic_key: Key | None = Field(None, description="Legacy.")
    app_keys: Keys = Field([], description="Legacy.")
    sups: Items = Field([], description="Legacy; free-form.")


class SurveySettings(Members):
    answer_mode: Line | None = Field(None, description="Mode of answering, such as `normal`.")
    auto_delete_answers_after_days: Limit = Field(
        -1, description="Answers are deleted after this many days; -1: never."
    )
    is_anonymous_enabled: bool = Field(False, description="Users can answer without logging in.")


class Survey(Record):
    """Questions to users. The account chooses the survey's key."""

    title: Title = None
    start: Timestamp | None = Field(None, description="Start of the time for answers.")
    end: Timestamp | None = Field(None, description="End of the time for answers.")
    fields: Items = Field([], description="The questions; free-form.")
    groups: Items = Field([], description="Groups of questions; free-form.")
    tags: Tags = Field([])
    image: Picture = Field(Linked())
    style: Style = Field({})
    custom_data: CustomData = Field({})
    settings: SurveySettings = Field(default_factory=SurveySettings, description="The rules for answers.")

    _in_order = model_validator(mode="after")(in_order)


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
    bottom_text: Line | None = Field(None, description="The line below the title.")
    top_text: Line | None = Field(None, description="Legacy: the line above the title.")
    start: Timestamp | None = Field(None, description="Start of the day.")
    end: Timestamp | None = Field(None, description="End of the day.")

    _in_order = model_validator(mode="after")(in_order)


class Venue(Members):
    id: PartId
    title: Title = None
    description: Description = None
    position: int | None = Field(None, description="Place among the venues.")
    style: Style = Field({})
    article_key: Key | None = Field(None, description="Legacy: key of an article.")
    navigation: FreeForm = Field({}, description="Legacy: the target of a tap; free-form.")


class SearchHelp(Members):
    term: Line | None = Field(None, description="Legacy: the search term.")
    icon_id: Key | None = Field(None, description="Legacy: key of an image.")


SearchHelps = Annotated[
    Parts[SearchHelp],
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
    days: Parts[Day] = Field([], description="The days. A day with timeslots cannot be removed.")
    venues: Parts[Venue] = Field([], description="The venues. A venue with timeslots cannot be removed.")
    search_help: Items = Field(
        [],
        description="Suggested searches: texts, or objects with a `term`; otherwise free-form. The terms are "
        "those of the legacy `search_helps`.",
    )
    style: Annotated[ScheduleStyle, OBJECT] = Field(default_factory=ScheduleStyle, description="The style.")
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

    article: Key | None = Field(None, description="Key of an article.")
    image: Key | None = Field(None, description="Key of an image.")
    day_id: Key | None = Field(None, description="Id of a day of the schedule.")
    venue_id: Key | None = Field(None, description="Id of a venue of the schedule.")
    title: Title = None
    description: Description = None
    time_text: Line | None = Field(None, description="The time in words.")
    start: Timestamp | None = Field(None, description="Start of the timeslot.")
    end: Timestamp | None = Field(None, description="End of the timeslot.")
    navigation: Navigation = Field({})
    search_terms: Texts = Field(
        [], description="Search terms that find the timeslot; the same as those of the legacy `search_helps`."
    )
    style: Style = Field({})
    custom_data: CustomData = Field({})
    search_helps: SearchHelps = Field([])

    _in_order = model_validator(mode="after")(in_order)
