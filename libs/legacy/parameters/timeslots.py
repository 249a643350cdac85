"""Legacy API: mapping of timeslots."""

from collections.abc import Mapping
from typing import Any, Final

from libs.catalogue.resource_definition import Document
from libs.catalogue.schemas.convention import Timeslot
from libs.contracts.catalogue_events import Stored
from libs.legacy.parameters.conventions import SEARCH_HELP, missing
from libs.legacy.parameters.participants import IMAGE_OR_NULL, Images, image_read
from libs.legacy.parameters.read_shapes import TEXT, TEXT_OR_NULL, TIMES, array, shape
from libs.legacy.parameters.translator import Field, JsonSchema, Translator
from libs.tally.time_conversion import timestamp

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
        "search_helps", "search_helps", "the terms of the current `search_terms`, with icons", items=SEARCH_HELP
    ),
)
REQUIRED: Final = ("start", "end")

TIMESLOT: Final = Translator(Timeslot, FIELDS)
SEARCH_HELP_SHAPE: Final = shape(
    "TimeslotSearchHelp", {"structured_id": TEXT, "term": TEXT_OR_NULL, "icon": IMAGE_OR_NULL}
)
SHAPE: Final = shape(
    "Timeslot",
    {"timeslot_key": TEXT, "convention_key": TEXT}
    | TIMESLOT.shape()
    | {"image": IMAGE_OR_NULL, "search_helps": array(SEARCH_HELP_SHAPE)}
    | TIMES,
)

AT_ONCE: Final = 1_000
"""Maximum number of timeslots in one batch write, which is folded atomically."""
MULTI: Final[dict[str, JsonSchema]] = {
    "timeslots": {
        "type": "array",
        "maxItems": AT_ONCE,
        "items": {
            "type": "object",
            "properties": {
                "timeslot_key": {
                    "type": "string",
                    "description": "Key of the timeslot to change; without it a new one is created.",
                },
                **TIMESLOT.parameters,
            },
            "required": REQUIRED,
        },
    }
}
"""JSON schemas of the parameters of a batch write."""


def timeslot_written(body: Mapping[str, Any], before: Document | None) -> Document:
    """Apply the parameters to a timeslot, as `Translator.written`."""
    return TIMESLOT.written(body, before, missing(body, REQUIRED, before))


def timeslot_of_several(body: Mapping[str, Any], before: Document | None) -> Document:
    """Apply an item of a batch write, which must repeat the required members."""
    return TIMESLOT.written(body, before, missing(body, REQUIRED, None))


def timeslot_read(account: str, stored: Stored, images: Images) -> dict[str, Any]:
    """Return the timeslot read shape. `structured_id` is the search help's id: timeslot key and index."""
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
