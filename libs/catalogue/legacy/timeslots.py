"""Timeslots in the legacy generation."""

from collections.abc import Mapping
from typing import Any, Final

from libs.catalogue.legacy.conventions import SEARCH_HELP, missing
from libs.catalogue.legacy.fields import Field, JsonSchema, Translator
from libs.catalogue.legacy.participants import Images, image_read
from libs.catalogue.resource import Document
from libs.catalogue.schemas.convention import Timeslot
from libs.contracts.catalogue import Stored
from libs.tally.time import timestamp

FIELDS: Final = (
    Field("title", "title"),
    Field("description", "description"),
    Field("day_id", "day_id"),
    Field("venue_id", "venue_id"),
    Field("time_text", "time_text"),
    Field("start", "start"),
    Field("end", "end"),
    Field("article_key", "article", "the same key under another name", names_record=True),
    Field("image_id", "image", "the same key; reads show the image itself", reads=False, names_record=True),
    Field("navigation", "navigation"),
    Field(
        "search_helps", "search_helps", "legacy only: the current `search_terms` have no icons", items=SEARCH_HELP
    ),
)
REQUIRED: Final = ("start", "end")

TIMESLOT: Final = Translator(Timeslot, FIELDS)

AT_ONCE: Final = 1_000
"""Timeslots in one write of several: the fold takes all of them in one step."""
MULTI: Final[dict[str, JsonSchema]] = {
    "timeslots": {
        "type": "array",
        "maxItems": AT_ONCE,
        "items": {
            "type": "object",
            "properties": {
                "timeslot_key": {
                    "type": "string",
                    "description": "Of the one that is changed; without it one is made.",
                },
                **TIMESLOT.parameters,
            },
            "required": REQUIRED,
        },
    }
}
"""The parameters of a write of several."""


def timeslot_written(body: Mapping[str, Any], before: Document | None) -> Document:
    """What the parameters make of a timeslot; as `Translator.written`."""
    return TIMESLOT.written(body, before, missing(body, REQUIRED, before))


def timeslot_of_several(body: Mapping[str, Any], before: Document | None) -> Document:
    """The same of an item of several, which has to say anew what is required."""
    return TIMESLOT.written(body, before, missing(body, REQUIRED, None))


def timeslot_read(account: str, stored: Stored, images: Images) -> dict[str, Any]:
    """The timeslot read shape. `structured_id` tells the timeslot's search helps apart, by their places."""
    record = Timeslot.model_validate(stored.document)
    return {
        "timeslot_key": stored.key,
        "convention_key": stored.parent,
        **TIMESLOT.read(record),
        "image": image_read(record.image, account, images),
        "search_helps": [
            {
                "structured_id": f"{stored.key}.{place}",
                "term": each.term,
                "icon": image_read(each.icon_id, account, images),
            }
            for place, each in enumerate(record.search_helps)
        ],
        "created": timestamp(stored.created),
        "updated": timestamp(stored.updated),
    }
