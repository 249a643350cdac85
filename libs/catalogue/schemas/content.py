"""Articles, feeds and surveys."""

from typing import Self

from pydantic import Field, model_validator

from libs.catalogue.schemas.base import FreeForm, Items, Limit, Members, Record, Timestamp, refuse_disorder


class Article(Record):
    title: str | None = None
    description: str | None = None
    origin_template: str | None = Field(None, description="Key of the article that is the template of this one.")
    content: Items = Field([])
    thumbnail: Items = Field([])
    navigation: FreeForm = Field({})
    style: FreeForm = Field({})
    thumbnail_style: FreeForm = Field({})
    image: FreeForm = Field({}, description="`key` names an image.")
    custom_data: FreeForm = Field({}, description="Free-form.")
    tags: list[str] = Field([])


class NavigationBlock(Members):
    is_scroll: bool = False
    nav_list: Items = Field([])


class InnerNavigation(Members):
    is_swipe_enabled: bool = False
    location: str | None = None
    navigation_block: NavigationBlock = Field(default_factory=NavigationBlock)


class Feed(Record):
    title: str | None = None
    divider_height: int | None = None
    header: FreeForm = Field({})
    footer: FreeForm = Field({})
    style: FreeForm = Field({})
    custom_data: FreeForm = Field({}, description="Free-form.")
    tags: list[str] = Field([])
    inner_navigation: InnerNavigation = Field(default_factory=InnerNavigation)


class SurveySettings(Members):
    answer_mode: str | None = None
    auto_delete_answers_after_days: Limit = -1
    is_anonymous_enabled: bool = False


class Survey(Record):
    title: str | None = None
    start: Timestamp | None = None
    end: Timestamp | None = None
    fields: Items = Field([])
    groups: Items = Field([])
    tags: list[str] = Field([])
    image: FreeForm = Field({}, description="`key` names an image.")
    style: FreeForm = Field({})
    custom_data: FreeForm = Field({}, description="Free-form.")
    settings: SurveySettings = Field(default_factory=SurveySettings)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        refuse_disorder(self.start, self.end)
        return self
