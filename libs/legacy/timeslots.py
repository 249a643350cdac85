"""Timeslots in the legacy API: their table and routes, single and in batches."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, ClassVar, Final

from libs.catalogue.pagination import bytes_of
from libs.catalogue.records import Change
from libs.catalogue.resource_table import TIMESLOTS
from libs.catalogue.schemas.base import Document
from libs.catalogue.schemas.content import Timeslot
from libs.concurrency.turns import in_turns
from libs.contracts.catalogue_events import Stored
from libs.contracts.limits import JSON_BODY, KEY, WRITTEN_TOGETHER
from libs.contracts.validation import Problem, ValidationFailed
from libs.legacy.conventions import SEARCH_HELP, missing
from libs.legacy.participants import IMAGE_OR_NULL, Images, image_read, images_at
from libs.legacy.routing import LegacyCall, LegacyRoutes, ResourceHandlers
from libs.legacy.translator import TEXT, TEXT_OR_NULL, TIMES, Field, JsonSchema, Translator, array, page, shape

FIELDS: Final = (
    *Field.same("title", "description", "day_id", "venue_id", "time_text", "start", "end"),
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


@cache
def timeslot_schema() -> JsonSchema:
    """Return the JSON schema of the timeslot read shape."""
    own = {"image": IMAGE_OR_NULL, "search_helps": array(SEARCH_HELP_SHAPE)}
    return shape("Timeslot", {"timeslot_key": TEXT, "convention_key": TEXT} | TIMESLOT.shape() | own | TIMES)


@cache
def batch_parameters() -> dict[str, JsonSchema]:
    """Return the JSON schemas of the parameters of a batch write."""
    key = {
        "type": "string",
        "maxLength": KEY.code_points,
        "description": "Key of the timeslot to change; without it a new one is created.",
    }
    item = {
        "type": "object",
        "properties": {"timeslot_key": key, **TIMESLOT.parameters},
        "required": REQUIRED,
    }
    return {"timeslots": {"type": "array", "maxItems": WRITTEN_TOGETHER.items, "items": item}}


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
        **stored.times,
    }


class Timeslots(ResourceHandlers):
    name = "timeslot"
    several, one = "/dev/v2/conventions/{convention_key}/timeslots", "/dev/v2/timeslots/{timeslot_key}"
    row, translator, required = TIMESLOTS, TIMESLOT, REQUIRED
    schema = staticmethod(timeslot_schema)
    written = staticmethod(timeslot_written)
    docs: ClassVar[Mapping[str, str]] = {
        "list": "The convention's timeslots, 20 a page, newest first.",
        "create": "`start` and `end` are required; day and venue must belong to the convention.",
        "get": "The timeslot may belong to any convention of the brand.",
        "delete": "Deletes the timeslot; its convention stays.",
    }

    def add_to(self, routes: LegacyRoutes) -> None:
        super().add_to(routes)
        routes.add(
            "POST",
            "/v2/conventions/{convention_key}/timeslots/multi",
            self.write_several_timeslots,
            translator=TIMESLOT,
            parameters=batch_parameters,
            max_bytes=JSON_BODY,
            required=("timeslots",),
            schema=lambda: page("timeslots", timeslot_schema()),
        )

    async def write_several_timeslots(self, call: LegacyCall) -> Document:
        """Writes all timeslots or none; at most 100, all of this convention.

        An item with `timeslot_key` updates that timeslot, others create one. Each needs `start` and `end`.
        """
        changes = list(_changes((await call.parameters(batch_parameters())).get("timeslots")))
        await asyncio.gather(*(self.records.get(TIMESLOTS, call.account, key) for key, _ in changes if key))
        parent = call.path("convention_key")
        written = await self.records.write_together(TIMESLOTS, call.account, parent, changes)
        return {"timeslots": await self.shown(call, written)}

    async def shown(self, call: LegacyCall, records: Sequence[Stored]) -> list[Document]:
        named = [stored.document.get("image") for stored in records]
        named += [each.get("icon_id") for stored in records for each in stored.document.get("search_helps", ())]
        images = await images_at(self.environment.views, call.account, filter(None, named))
        return [timeslot_read(call.account, stored, images) async for stored in in_turns(records, bytes_of)]


def _changes(items: object) -> Iterator[tuple[str, Change]]:
    """Yield each item's timeslot key ("" for a new one) and its change."""
    if not isinstance(items, list) or len(items) > WRITTEN_TOGETHER.items:
        raise ValidationFailed([Problem("", f"timeslots must be a list of up to {WRITTEN_TOGETHER.items:,}")])
    for item in items:
        key = item.get("timeslot_key") if isinstance(item, dict) else None
        if not isinstance(item, dict) or not isinstance(key, str | None):
            yield "", _no_timeslot
        else:
            yield key or "", partial(timeslot_of_several, item)


def _no_timeslot(_: Document | None) -> Document:
    raise ValidationFailed([Problem("", "must be an object with a text as its timeslot_key, if any")])
