"""Articles in the legacy API: their table, style objects, the records that they embed, and their routes."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Final, get_args

from libs.catalogue.pagination import bytes_of
from libs.catalogue.resource_table import ARTICLES, CONTESTS, PARTICIPANTS, SURVEYS
from libs.catalogue.schemas.base import Document
from libs.catalogue.schemas.content import Article, ArticleDraft, ArticleField, ArticleType, StyleObject
from libs.concurrency.turns import in_turns
from libs.contracts.catalogue_events import Ref, Stored
from libs.contracts.validation import Problem, ValidationFailed, checked
from libs.legacy.bodies import BOOLEANS
from libs.legacy.contests import contest_schema, contest_shape
from libs.legacy.participants import IMAGE_OR_NULL, Images, image_read, images_at, images_of, participant_read
from libs.legacy.participants import SHAPE as PARTICIPANT
from libs.legacy.routing import NEXT, UPDATE, Filter, LegacyCall, LegacyEnvironment, ResourceHandlers
from libs.legacy.translator import (
    FLAG,
    OBJECT_OR_NULL,
    TEXT,
    TIMES,
    Field,
    JsonSchema,
    Translator,
    array,
    described,
    inlined,
    or_null,
    shape,
    shape_of,
)
from libs.tally.errors import NotFound
from libs.tally.time_conversion import microseconds


@cache
def style_parameter() -> dict[str, JsonSchema]:
    """Return the JSON schema of the parameter `style`, by its name."""
    description = "The style. Unknown members cannot be changed."
    return {"style": inlined(StyleObject.model_json_schema()) | {"description": description}}


def style_problems(body: Mapping[str, Any], before: Document | None) -> list[Problem]:
    """Return the problems of `style` in the body; members with an unchanged value are not checked."""
    given = body.get("style")
    if not isinstance(given, dict):
        return []
    held = (before or {}).get("style", {})
    try:
        checked(StyleObject, {name: value for name, value in given.items() if held.get(name) != value})
    except ValidationFailed as error:
        return [Problem(f"/style{each['pointer']}", each["message"]) for each in error.data["errors"]]
    return []


def styled(document: Document, body: Mapping[str, Any], before: Document | None) -> Document:
    """Apply the style of a body without `style_problems` to `document`.

    Members unknown to the legacy API keep their value.
    """
    given = body.get("style")
    if not isinstance(given, dict):
        return document
    held = (before or {}).get("style", {})
    unknown = {name: value for name, value in held.items() if name not in StyleObject.model_fields}
    return document | {"style": unknown | {name: value for name, value in given.items() if value is not None}}


EMBEDDED: Final = {
    "contest_key": ("contest", "contest_id"),
    "image_id": ("image", "image_id"),
    "participant_keys": ("participants", "participant_key"),
    "survey_key": ("survey", "key"),
    "video_id": ("video", "video_id"),
    "web_data_key": ("web_data", "web_data_key"),
}
"""Maps a part's reference to the member of the read shape that embeds the record, and the key's name in it."""
FIELD: Final = (
    *Field.same("field_id", "type", "text", "full_screen", "scrollable", "link", "follow", "from_template_key"),
    *Field.same("navigation", "simple_web_data", "ad", "subfields"),
    Field("video", "video", "reads add video_id", reads=False),
    Field("web_data", "web_data", "reads add web_data_key", reads=False),
    *(
        Field(
            name,
            name,
            "reads show the record itself, as far as it is available",
            reads=False,
            names_record=True,
            embeds=embeds,
        )
        for name, embeds in EMBEDDED.items()
    ),
)
FIELDS: Final = (
    Field("type", "type", "legacy only"),
    *Field.same("title", "description", "navigation"),
    Field("image_id", "image.key", "reads show the image itself", reads=False, names_record=True),
    Field("fields", "fields", "legacy only: the current `content` is free-form", reads=False, items=FIELD),
    Field("draft", "draft", "legacy only; an article itself, read and written like one", reads=False),
    Field("style", "style", "legacy checks known members and keeps the others"),
    Field("is_template", "is_template", "legacy only; lists filter by it", reads=False),
    Field("publish", "publish", "legacy only; reads show `is_published`", reads=False),
    Field("custom_data", "custom_data", "not written", writes=False),
    Field("thumbnail_fields", "thumbnail", "the same parts; not written", writes=False),
)
DRAFT_FIELDS: Final = (
    *(
        each
        for each in FIELDS
        if each.parameter in ("type", "title", "description", "navigation", "fields", "style")
    ),
    Field(
        "image_id",
        "image_id",
        "reads show the image itself",
        reads=False,
        names_record=True,
        embeds=EMBEDDED["image_id"],
    ),
)

DRAFT: Final = Translator(ArticleDraft, DRAFT_FIELDS, style_parameter)


def own_parameters() -> dict[str, JsonSchema]:
    return style_parameter() | {"draft": {"type": "object", "properties": dict(DRAFT.parameters)}}


ARTICLE: Final = Translator(Article, FIELDS, own_parameters)


@cache
def article_schema() -> JsonSchema:
    """Return the JSON schema of the article read shape."""
    return shape(
        "Article",
        {
            "article_key": TEXT,
            "is_draft": described(FLAG, "The article has a draft, or is one."),
            "draft": described(OBJECT_OR_NULL, "An article of this shape."),
            "image": IMAGE_OR_NULL,
            "is_published": described(FLAG, "False for scheduled articles and drafts."),
            "fields": array(_field_schema()),
        }
        | ARTICLE.shape()
        | TIMES,
    )


def _field_schema() -> JsonSchema:
    return shape(
        "ArticleField",
        shape_of(FIELD, ArticleField)
        | {
            "image": IMAGE_OR_NULL,
            "contest": or_null(contest_schema()),
            "participants": array(PARTICIPANT),
            "survey": described(OBJECT_OR_NULL, "The survey, as in the current API."),
            "video": described(OBJECT_OR_NULL, "As written, with its `video_id`."),
            "web_data": described(OBJECT_OR_NULL, "As written, with its `web_data_key`."),
        },
    )


@dataclass(frozen=True, slots=True)
class Embedded:
    """Legacy shapes of the existing records that articles embed, by key."""

    images: Images = field(default_factory=dict)
    contests: Mapping[str, Document] = field(default_factory=dict)
    participants: Mapping[str, Document] = field(default_factory=dict)
    surveys: Mapping[str, Document] = field(default_factory=dict)


def article_written(body: Mapping[str, Any], before: Document | None) -> Document:
    """Apply the parameters to an article, as `Translator.written`. A draft is replaced completely."""
    document = styled(ARTICLE.written(body, before, style_problems(body, before)), body, before)
    if isinstance(draft := body.get("draft"), dict):
        document["draft"] = DRAFT.written(draft, None)
        _separate_ids(document["draft"])
    _separate_ids(document)
    return document


def _separate_ids(document: Document) -> None:
    """Remove from videos and web data the ids that reads add, and that have members of their own."""
    parts = document.get("fields")
    for part in parts if isinstance(parts, list) else ():
        for name in ("video_id", "web_data_key"):
            member, key = EMBEDDED[name]
            if isinstance(part, dict) and isinstance(written := part.get(member), dict) and key in written:
                rest = {each: value for each, value in written.items() if each != key}
                part.pop(member)
                if rest:
                    part[member] = rest


def article_read(account: str, stored: Stored, embedded: Embedded, now: int) -> dict[str, Any]:
    """Return the article read shape at `now` (us). An article with a draft is marked as draft, as is the draft."""
    record = Article.model_validate(stored.document)
    times = stored.times
    draft = None
    if record.draft is not None:
        own = DRAFT.read(record.draft) | {"is_draft": True, "draft": None, "is_published": False}
        shape = _shape(account, stored, record.draft.image_id, record.draft.fields, embedded)
        draft = own | shape | times | {"custom_data": {}, "thumbnail_fields": []}
    own = ARTICLE.read(record) | {"is_draft": draft is not None, "draft": draft}
    own["is_published"] = not is_scheduled(stored, now)
    return own | _shape(account, stored, record.image.get("key"), record.fields, embedded) | times


def is_scheduled(stored: Stored, now: int) -> bool:
    """Return whether the article's publication time is after `now` (us)."""
    publish = Article.model_validate(stored.document).publish
    return publish is not None and microseconds(publish) > now


def is_listed(stored: Stored, now: int, scheduled: bool, is_template: bool, kind: str | None) -> bool:
    """Return whether a list contains the article; scheduled articles are only in their own list."""
    if is_scheduled(stored, now) or scheduled:
        return scheduled and is_scheduled(stored, now)
    record = Article.model_validate(stored.document)
    return record.is_template == is_template and kind in (None, record.type)


def named_by(stored: Stored) -> Iterable[Ref]:
    """Yield references to the records that an article embeds."""
    record = Article.model_validate(stored.document)
    images = [record.image.get("key"), record.draft.image_id if record.draft is not None else None]
    yield from (("images", key) for key in images if key)
    for each in (*record.fields, *(record.draft.fields if record.draft is not None else ())):
        named = {"images": each.image_id, "contests": each.contest_key, "surveys": each.survey_key}
        yield from ((resource, key) for resource, key in named.items() if key)
        yield from (("participants", key) for key in each.participant_keys)


def _shape(
    account: str, stored: Stored, image: str | None, fields: Iterable[ArticleField], embedded: Embedded
) -> Document:
    """Return the members common to an article and its draft that are not in their field tables."""
    return {
        "article_key": stored.key,
        "image": image_read(image, account, embedded.images),
        "fields": [_field(account, each, embedded) for each in fields],
    }


def _field(account: str, part: ArticleField, embedded: Embedded) -> Document:
    """Return the shape of a part. Videos and web data are of other systems: shown as written, with their ids."""
    shown = part.model_dump(mode="json")
    shape = {each.legacy: shown[each.canonical] for each in FIELD if each.reads}
    return shape | {
        "image": image_read(part.image_id, account, embedded.images),
        "contest": embedded.contests.get(part.contest_key or ""),
        "survey": embedded.surveys.get(part.survey_key or ""),
        "video": _with_id(part.video, "video_id", part.video_id),
        "web_data": _with_id(part.web_data, "web_data_key", part.web_data_key),
        "participants": [
            embedded.participants[key] for key in part.participant_keys if key in embedded.participants
        ],
    }


def _with_id(written: Document | None, name: str, key: str | None) -> Document | None:
    return {**(written or {}), name: key} if key else written


TYPES: Final = get_args(ArticleType)
FLAGS: Final = ("scheduled", "is_template")


class Articles(ResourceHandlers):
    name, several, one = "article", "/v2/articles", "/v2/articles/{article_key}"
    row, translator, schema = ARTICLES, ARTICLE, staticmethod(article_schema)
    written = staticmethod(article_written)
    query: ClassVar[Mapping[str, JsonSchema]] = {
        "scheduled": {
            "type": "boolean",
            "default": False,
            "description": "Only scheduled articles; `is_template` and `type` are ignored then.",
        },
        "is_template": {"type": "boolean", "default": False, "description": "Only templates."},
        "type": {"type": "string", "enum": list(TYPES), "description": "Only articles of this type."},
        "next": NEXT,
    }
    docs: ClassVar[Mapping[str, str]] = {
        "list": "Newest first, 20 a page. Scheduled articles and templates have their own lists.",
        "create": "A `publish` in the future makes it scheduled; without one, it appears at once. `type` defaults "
        "to normal.",
        "get": "Includes the images, contests, surveys and participants that it refers to, without deleted ones.",
        "update": f"{UPDATE} A draft is replaced as a whole.",
        "delete": "Refused while other records refer to it.",
    }

    def filter(self, call: LegacyCall) -> Filter:
        """Parse the query. Raises `ValidationFailed` with all faults."""
        kind, now = call.query("type"), self.environment.now()
        flags = [BOOLEANS.get(call.query(name) or "false") for name in FLAGS]
        problems = [
            Problem("", f"{name} must be true or false", name)
            for name, flag in zip(FLAGS, flags, strict=True)
            if flag is None
        ]
        scheduled, is_template = (flag is True for flag in flags)
        if kind is not None and kind not in TYPES and not scheduled:
            problems.append(Problem("", f"type must be one of {', '.join(TYPES)}", "type"))
        if problems:
            raise ValidationFailed(problems, "; ".join(problem.message for problem in problems))
        return lambda stored: is_listed(stored, now, scheduled, is_template, kind)

    async def shown(self, call: LegacyCall, records: Sequence[Stored]) -> list[Document]:
        return await shown_articles(self.environment, call, records)


async def shown_articles(
    environment: LegacyEnvironment, call: LegacyCall, articles: Sequence[Stored]
) -> list[Document]:
    """Return articles in their read shape, without references to deleted records or other accounts' records."""
    named: dict[str, set[str]] = {}
    for resource, key in (ref for stored in articles for ref in named_by(stored)):
        named.setdefault(resource, set()).add(key)
    images, contests, participants, surveys = await asyncio.gather(
        images_at(environment.views, call.account, named.get("images", ())),
        _contests(environment, call, named.get("contests", ())),
        _participants(environment, call, named.get("participants", ())),
        _surveys(environment, call, named.get("surveys", ())),
    )
    embedded, now = Embedded(images, contests, participants, surveys), environment.now()
    return [article_read(call.account, stored, embedded, now) async for stored in in_turns(articles, bytes_of)]


async def _contests(environment: LegacyEnvironment, call: LegacyCall, keys: Iterable[str]) -> dict[str, Document]:
    found = await asyncio.gather(
        *(contest_shape(environment, call.account, key) for key in keys), return_exceptions=True
    )
    shapes = []
    for each in found:
        if isinstance(each, dict):
            shapes.append(each)
        elif not isinstance(each, NotFound):
            raise each
    await environment.complete(call, CONTESTS, shapes)
    return {shape["contest_id"]: shape for shape in shapes}


async def _participants(
    environment: LegacyEnvironment, call: LegacyCall, keys: Iterable[str]
) -> dict[str, Document]:
    found = await _records(environment, call, PARTICIPANTS.name, keys)
    images = await images_of(environment.views, call.account, *found)
    shapes = [participant_read(call.account, stored, None, images) for stored in found]
    await environment.complete(call, PARTICIPANTS, shapes)
    return {shape["participant_key"]: shape for shape in shapes}


async def _surveys(environment: LegacyEnvironment, call: LegacyCall, keys: Iterable[str]) -> dict[str, Document]:
    """Return surveys in the current API's shape: the legacy API has none of its own."""
    return {stored.key: SURVEYS.show(stored) for stored in await _records(environment, call, SURVEYS.name, keys)}


async def _records(
    environment: LegacyEnvironment, call: LegacyCall, resource: str, keys: Iterable[str]
) -> list[Stored]:
    found = await asyncio.gather(*(environment.views.get(call.account, resource, key) for key in keys))
    return [stored for stored in found if stored is not None]
