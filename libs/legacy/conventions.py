"""Conventions in the legacy API, which the current API calls schedules: their table and routes."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Final

from libs.catalogue.pagination import bytes_of
from libs.catalogue.resource_table import CONVENTIONS
from libs.catalogue.schemas.base import Document
from libs.catalogue.schemas.content import Convention
from libs.concurrency.turns import in_turns
from libs.contracts.catalogue_events import Stored
from libs.contracts.validation import Problem
from libs.legacy.participants import IMAGE_OR_NULL, Images, image_read, images_at
from libs.legacy.routing import UPDATE, WHOLE, LegacyCall, ResourceHandlers
from libs.legacy.translator import TEXT, TEXT_OR_NULL, TIMES, Field, JsonSchema, Translator, array, shape

DAY: Final = (
    *Field.same("id", "title"),
    Field("top_text", "top_text", "legacy only"),
    *Field.same("bottom_text", "start", "end"),
)
VENUE: Final = (
    *Field.same("id", "title", "description", "position"),
    Field("article_key", "article_key", "legacy only", names_record=True),
    Field("navigation", "navigation", "legacy only"),
)
SEARCH_HELP: Final = (
    Field("term", "term"),
    Field(
        "icon_id",
        "icon_id",
        "reads show the image itself, as `icon`",
        names_record=True,
        embeds=("icon", "image_id"),
    ),
)
FIELDS: Final = (
    *Field.same("title", "start", "end"),
    Field("days", "days", items=DAY),
    Field("venues", "venues", "only the current API has `style` of a venue", items=VENUE),
    Field(
        "search_helps",
        "search_helps",
        "the terms of the current `search_help`, with icons",
        items=SEARCH_HELP,
    ),
)
REQUIRED: Final = ("start", "end")

CONVENTION: Final = Translator(Convention, FIELDS)
SEARCH_HELP_SHAPE: Final = shape("SearchHelp", {"term": TEXT_OR_NULL, "icon": IMAGE_OR_NULL})


@cache
def convention_schema() -> JsonSchema:
    """Return the JSON schema of the convention read shape."""
    helps = {"search_helps": array(SEARCH_HELP_SHAPE)}
    return shape("Convention", {"convention_key": TEXT} | CONVENTION.shape() | helps | TIMES)


def convention_written(body: Mapping[str, Any], before: Document | None) -> Document:
    """Apply the parameters to a convention, as `Translator.written`."""
    return CONVENTION.written(body, before, missing(body, REQUIRED, before))


def convention_read(account: str, stored: Stored, images: Images) -> dict[str, Any]:
    """Return the convention read shape."""
    record = Convention.model_validate(stored.document)
    return {
        "convention_key": stored.key,
        **CONVENTION.read(record),
        "search_helps": [
            {"term": each.term, "icon": image_read(each.icon_id, account, images)} for each in record.search_helps
        ],
        **stored.times,
    }


def missing(body: Mapping[str, Any], required: tuple[str, ...], before: Document | None) -> list[Problem]:
    """Return a problem for each required parameter that a new record lacks or a change clears.

    Records created by the current API may lack them and can be sent back unchanged.
    """
    return [
        Problem(f"/{name}", "is required")
        for name in required
        if body.get(name) is None and (before is None or (name in body and before.get(name) is not None))
    ]


class Conventions(ResourceHandlers):
    name, several, one = "convention", "/dev/v2/conventions", "/dev/v2/conventions/{convention_key}"
    row, translator, required = CONVENTIONS, CONVENTION, REQUIRED
    schema = staticmethod(convention_schema)
    written = staticmethod(convention_written)
    page_size = WHOLE
    docs: ClassVar[Mapping[str, str]] = {
        "create": "`start` and `end` are required.",
        "get": "Includes its days and venues; timeslots have their own list.",
        "update": f"{UPDATE} A day or venue with timeslots cannot be removed.",
        "delete": "Deletes the convention and its timeslots.",
    }

    async def shown(self, call: LegacyCall, records: Sequence[Stored]) -> list[Document]:
        icons = (each.get("icon_id") for stored in records for each in stored.document.get("search_helps", ()))
        images = await images_at(self.environment.views, call.account, filter(None, icons))
        return [convention_read(call.account, stored, images) async for stored in in_turns(records, bytes_of)]
