"""Schemas of the legacy read shapes, for the OpenAPI document; the sibling modules build the shapes."""

from typing import Any

from pydantic import BaseModel, Field

COUNT = "Null while hidden from the caller."


class Brand(BaseModel):
    brand_id: str
    brand_name: str
    image_id: str | None


class LegacyImage(BaseModel):
    """An image inside another record."""

    image_id: str
    brand: Brand
    title: str | None
    story: str | None
    ratio: float | None
    love_count: int
    message_count: int
    tags: list[str]
    created: str | None


class LegacyContestParticipant(BaseModel):
    participant_key: str
    contest_id: str
    brand: Brand
    title: str | None
    story: str | None
    vote_count: int | None = Field(description=COUNT)
    participated: str
    data: dict[str, Any]
    image: LegacyImage | None


class LegacyContest(BaseModel):
    """The contest read shape: approved participants only, in `participant_order`."""

    contest_id: str
    contest_type: str
    phase: str = Field(examples=["setup", "announced", "running", "finished"])
    brand: Brand
    title: str | None
    text: str | None
    image: LegacyImage | None
    tags: list[str]
    custom_data: dict[str, Any]
    total_vote_count: int | None = Field(description=COUNT)
    unique_voter_count: int | None = Field(description=COUNT)
    participant_count: int
    unique_participant_count: int
    countries: list[str]
    categories: list[dict[str, Any]]
    published: bool
    update_widget: bool
    contest_config: dict[str, Any]
    free_vote_config: dict[str, int]
    star_vote_config: dict[str, int]
    silver_vote_config: dict[str, int]
    start: str | None
    end: str | None
    created: str
    participants: list[LegacyContestParticipant]


class LegacyContests(BaseModel):
    contests: list[LegacyContest]
    next: str | None = Field(None, description="Absent at the end.")


class LegacyParticipant(BaseModel):
    """The participant read shape."""

    participant_key: str
    title: str | None
    story: str | None
    vote_count: int | None = Field(description=COUNT)
    rater_count: int | None = Field(description="Distinct voters. " + COUNT)
    message_count: int
    status: str
    contest_id: str
    contest_key: str
    number_string: str
    running_number: int
    participated: str
    user: dict[str, str | None] | None
    image: dict[str, Any] | None


class LegacyParticipants(BaseModel):
    participants: list[LegacyParticipant]
    next: str | None = Field(None, description="Absent at the end.")


class LegacyImageRecord(BaseModel):
    """The image read shape."""

    image_id: str
    title: str | None
    image_text: str | None
    brand: Brand
    ratio: float = Field(description="Width divided by height.")
    is_icon: bool
    public_use: bool
    tags: list[str]
    created: str


class LegacySearchHelp(BaseModel):
    term: str | None
    icon: LegacyImage | None


class LegacyConvention(BaseModel):
    """The convention read shape."""

    convention_key: str
    title: str | None
    start: str | None
    end: str | None
    days: list[dict[str, Any]] = Field(description="{id, title, top_text, bottom_text, start, end}")
    venues: list[dict[str, Any]] = Field(description="{id, title, description, position, article_key, navigation}")
    search_helps: list[LegacySearchHelp]
    created: str
    updated: str


class LegacyConventions(BaseModel):
    conventions: list[LegacyConvention]
    next: str | None = Field(None, description="Absent at the end.")


class LegacyTimeslotSearchHelp(LegacySearchHelp):
    structured_id: str


class LegacyTimeslot(BaseModel):
    """The timeslot read shape."""

    timeslot_key: str
    convention_key: str
    article_key: str | None
    title: str | None
    description: str | None
    day_id: str | None
    venue_id: str | None
    time_text: str | None
    start: str | None
    end: str | None
    image: LegacyImage | None
    navigation: dict[str, Any]
    search_helps: list[LegacyTimeslotSearchHelp]
    created: str
    updated: str


class LegacyTimeslots(BaseModel):
    timeslots: list[LegacyTimeslot]
    next: str | None = Field(None, description="Absent at the end.")


class LegacyArticleField(BaseModel):
    field_id: str | None
    type: str | None
    text: str | None
    full_screen: bool
    scrollable: bool
    link: str | None
    follow: dict[str, Any] | None = Field(description="{topic, follow_text, unfollow_text, style}")
    from_template_key: str | None
    navigation: dict[str, Any]
    simple_web_data: Any
    image: LegacyImage | None
    contest: LegacyContest | None
    participants: list[LegacyParticipant]
    survey: dict[str, Any] | None = Field(description="The survey, as in the current API.")
    video: dict[str, str] | None = Field(description="{video_id}")
    web_data: dict[str, str] | None = Field(description="{web_data_key}")
    ad: dict[str, Any] | None = Field(description="Always null.")
    subfields: list[Any] = Field(description="Always empty.")


class LegacyArticle(BaseModel):
    """The article read shape."""

    article_key: str
    type: str
    title: str | None
    description: str | None
    is_draft: bool = Field(description="The article has a draft, or is one.")
    draft: dict[str, Any] | None = Field(description="An article of this shape.")
    navigation: dict[str, Any]
    image: LegacyImage | None
    style: dict[str, Any]
    is_published: bool = Field(description="False for scheduled articles and drafts.")
    custom_data: dict[str, Any]
    thumbnail_fields: list[Any]
    fields: list[LegacyArticleField]
    created: str
    updated: str


class LegacyArticles(BaseModel):
    articles: list[LegacyArticle]
    next: str | None = Field(None, description="Absent at the end.")


class LegacyFeedHead(BaseModel):
    page_key: str
    feed_key: str
    page_number: int = Field(description="Number of the page, from 1.")
    created: str
    updated: str


class LegacyFeedArticle(LegacyArticle):
    feed_item_id: str


class LegacyFirstPage(LegacyFeedHead):
    articles: list[LegacyFeedArticle]


class LegacyFeedEntry(BaseModel):
    feed_item_id: str
    article: LegacyArticle


class LegacyFeedPage(LegacyFeedHead):
    """A page of a feed."""

    next_page_key: str | None
    previous_page_key: str | None
    items: list[LegacyFeedEntry]


class LegacyFeedItem(LegacyFeedPage):
    """The page with a new item."""

    feed_item_id: str = Field(description="Id of the new item.")


class LegacyFeed(BaseModel):
    """The article feed read shape."""

    feed_key: str
    title: str | None
    is_followable: bool
    is_push_enabled: bool
    divider_height: int | None
    header_article: LegacyArticle | None
    footer_article: LegacyArticle | None
    total_pages: int
    total_count: int
    first_page: LegacyFirstPage
    app_keys: list[str]
    sups: list[Any]
    style: dict[str, Any]
    custom_data: dict[str, Any]
    created: str
    updated: str


class LegacyFeeds(BaseModel):
    articlefeeds: list[LegacyFeed]
    next: str | None = Field(None, description="Absent at the end.")
