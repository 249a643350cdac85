"""Articles, feeds and surveys."""

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from libs.catalogue.schemas.base import (
    CustomData,
    Description,
    FreeForm,
    Items,
    Limit,
    Linked,
    Members,
    Navigation,
    Picture,
    Record,
    Style,
    Tags,
    Timestamp,
    Title,
    refuse_disorder,
)
from libs.catalogue.schemas.style import StyleObject


class Follow(Members):
    """What a topic is followed by."""

    topic: str | None = Field(None, description="What is followed.")
    follow_text: str | None = Field(None, description="Shown to those who do not follow it.")
    unfollow_text: str | None = Field(None, description="Shown to those who follow it.")
    style: StyleObject = Field(default_factory=StyleObject, description="How it is drawn.")


class ArticleField(Members):
    """A part of a legacy article."""

    field_id: str | None = Field(None, description="The account's own.")
    type: str | None = Field(None, description="What it is, such as `text`.")
    text: str | None = Field(None, description="Its text.")
    full_screen: bool = Field(False, description="It fills the screen.")
    scrollable: bool = Field(False, description="It can be scrolled.")
    link: str | None = Field(None, description="An address that it leads to.")
    follow: Follow | None = Field(None, description="A topic that can be followed.")
    from_template_key: str | None = Field(None, description="Key of the template that it is from.")
    navigation: Navigation = Field({})
    contest_key: str | None = Field(None, description="Key of a contest.")
    image_id: str | None = Field(None, description="Key of an image.")
    participant_keys: list[str] = Field([], description="Keys of participants.")
    survey_key: str | None = Field(None, description="Key of a survey.")
    video_id: str | None = Field(None, description="Kept elsewhere.")
    web_data_key: str | None = Field(None, description="Kept elsewhere.")
    simple_web_data: Any = Field(None, description="Free-form.")


ArticleType = Literal["content_only", "header", "normal", "splash", "thumbnail"]


class ArticleDraft(Record):
    """What a legacy article is going to be."""

    type: ArticleType = Field("normal", description="How it is shown.")
    title: Title = None
    description: Description = None
    navigation: Navigation = Field({})
    image_id: str | None = Field(None, description="Key of an image.")
    fields: list[ArticleField] = Field([], description="Its parts.")
    style: StyleObject = Field(default_factory=StyleObject, description="How it is drawn.")


class Article(Record):
    """A page of content."""

    title: Title = None
    description: Description = None
    origin_template: str | None = Field(None, description="Key of the article that is the template of this one.")
    content: Items = Field([], description="The parts of the page; free-form.")
    thumbnail: Items = Field([], description="The parts of its thumbnail; free-form.")
    navigation: Navigation = Field({})
    style: Style = Field({})
    thumbnail_style: Style = Field({})
    image: Picture = Field(Linked())
    custom_data: CustomData = Field({})
    tags: Tags = Field([])
    type: ArticleType = Field("normal", description="Legacy: how it is shown.")
    fields: list[ArticleField] = Field([], description="Legacy: its parts.")
    draft: ArticleDraft | None = Field(None, description="Legacy: what it is going to be.")
    is_template: bool = Field(False, description="Legacy: others are made from it.")
    publish: Timestamp | None = Field(None, description="Legacy: when it appears; at once without it.")


class NavigationBlock(Members):
    is_scroll: bool = Field(False, description="The entries can be scrolled.")
    nav_list: Items = Field([], description="The entries; free-form.")


class InnerNavigation(Members):
    is_swipe_enabled: bool = Field(False, description="A swipe goes on to the next entry.")
    location: str | None = Field(None, description="Where it stands, such as `top`.")
    navigation_block: NavigationBlock = Field(default_factory=NavigationBlock, description="What it shows.")


class Feed(Record):
    """A list of articles. The server keeps its `pages` (`feedpages.py`)."""

    owned: ClassVar[frozenset[str]] = frozenset({"pages"})
    ignored: ClassVar[frozenset[str]] = Record.ignored | owned

    title: Title = None
    divider_height: int | None = Field(None, description="Height of the lines between articles.")
    header: FreeForm = Field({}, description="Above the articles; free-form.")
    footer: FreeForm = Field({}, description="Below the articles; free-form.")
    style: Style = Field({})
    custom_data: CustomData = Field({})
    tags: Tags = Field([])
    inner_navigation: InnerNavigation = Field(
        default_factory=InnerNavigation, description="The navigation inside the feed."
    )
    is_followable: bool = Field(False, description="Legacy.")
    is_push_enabled: bool = Field(False, description="Legacy.")
    header_article_key: str | None = Field(None, description="Legacy: key of the article above the others.")
    footer_article_key: str | None = Field(None, description="Legacy: key of the article below the others.")
    topic_key: str | None = Field(None, description="Legacy.")
    app_keys: list[str] = Field([], description="Legacy.")
    sups: Items = Field([], description="Legacy; free-form.")


class SurveySettings(Members):
    answer_mode: str | None = Field(None, description="How it is answered, such as `normal`.")
    auto_delete_answers_after_days: Limit = Field(
        -1, description="Answers are deleted after this many days; -1: never."
    )
    is_anonymous_enabled: bool = Field(False, description="It may be answered without logging in.")


class Survey(Record):
    """Questions to users, under a key of the account's own."""

    title: Title = None
    start: Timestamp | None = Field(None, description="It can be answered from then on.")
    end: Timestamp | None = Field(None, description="It can be answered until then.")
    fields: Items = Field([], description="The questions; free-form.")
    groups: Items = Field([], description="How the questions are grouped; free-form.")
    tags: Tags = Field([])
    image: Picture = Field(Linked())
    style: Style = Field({})
    custom_data: CustomData = Field({})
    settings: SurveySettings = Field(default_factory=SurveySettings, description="How it is answered.")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        refuse_disorder(self.start, self.end)
        return self
