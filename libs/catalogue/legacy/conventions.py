"""Conventions in the legacy generation: schedules in the words of the current one."""

from collections.abc import Mapping
from typing import Any, Final

from libs.catalogue.legacy.fields import Field, Translator
from libs.catalogue.legacy.participants import Images, image_read
from libs.catalogue.resource import Document
from libs.catalogue.schemas.convention import Convention
from libs.contracts.catalogue import Stored
from libs.contracts.validation import Problem
from libs.tally.time import timestamp

DAY: Final = (
    Field("id", "id"),
    Field("title", "title"),
    Field("top_text", "top_text", "legacy only"),
    Field("bottom_text", "bottom_text"),
    Field("start", "start"),
    Field("end", "end"),
)
VENUE: Final = (
    Field("id", "id"),
    Field("title", "title"),
    Field("description", "description"),
    Field("position", "position"),
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
    Field("title", "title"),
    Field("start", "start"),
    Field("end", "end"),
    Field("days", "days", items=DAY),
    Field("venues", "venues", "`style` of a venue is the current generation's alone", items=VENUE),
    Field(
        "search_helps",
        "search_helps",
        "legacy only: the current `search_help` is free-form, so neither can stand for the other",
        items=SEARCH_HELP,
    ),
)
REQUIRED: Final = ("start", "end")

CONVENTION: Final = Translator(Convention, FIELDS)


def convention_written(body: Mapping[str, Any], before: Document | None) -> Document:
    """What the parameters make of a convention; as `Translator.written`."""
    return CONVENTION.written(body, before, missing(body, REQUIRED, before))


def convention_read(account: str, stored: Stored, images: Images) -> dict[str, Any]:
    """The convention read shape."""
    record = Convention.model_validate(stored.document)
    return {
        "convention_key": stored.key,
        **CONVENTION.read(record),
        "search_helps": [
            {"term": each.term, "icon": image_read(each.icon_id, account, images)} for each in record.search_helps
        ],
        "created": timestamp(stored.created),
        "updated": timestamp(stored.updated),
    }


def missing(body: Mapping[str, Any], required: tuple[str, ...], before: Document | None) -> list[Problem]:
    """The required parameters that a new record lacks, or that a change clears.

    Records of the current generation may do without, and be sent back as they are.
    """
    return [
        Problem(f"/{name}", "is required")
        for name in required
        if body.get(name) is None and (before is None or (name in body and before.get(name) is not None))
    ]
