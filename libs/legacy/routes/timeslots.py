"""Routes of timeslots in the legacy API, single and in batches."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import ClassVar

from libs.catalogue.resource_definition import Document
from libs.catalogue.resource_table import TIMESLOTS
from libs.contracts.catalogue_events import Stored
from libs.contracts.validation import Problem, ValidationFailed
from libs.legacy.parameters.participants import images_at
from libs.legacy.parameters.read_shapes import page
from libs.legacy.parameters.timeslots import (
    AT_ONCE,
    MULTI,
    REQUIRED,
    SHAPE,
    TIMESLOT,
    timeslot_of_several,
    timeslot_read,
    timeslot_written,
)
from libs.legacy.records import Change
from libs.legacy.routes.resource_handlers import ResourceHandlers
from libs.legacy.routes.route_builder import Call, LegacyRoutes


class Timeslots(ResourceHandlers):
    name = "timeslot"
    several, one = "/dev/v2/conventions/{convention_key}/timeslots", "/dev/v2/timeslots/{timeslot_key}"
    row, translator, shape, required = TIMESLOTS, TIMESLOT, SHAPE, REQUIRED
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
            parameters=MULTI,
            required=("timeslots",),
            shape=page("timeslots", SHAPE),
        )

    async def write_several_timeslots(self, call: Call) -> Document:
        """Writes all timeslots or none; at most 1,000, all of this convention.

        An item with `timeslot_key` updates that timeslot, others create one. Each needs `start` and `end`.
        """
        changes = list(_changes((await call.parameters(MULTI)).get("timeslots")))
        written = await self.records.write_together(call.account, call.path("convention_key"), changes)
        return {"timeslots": await self.shown(call, written)}

    async def shown(self, call: Call, records: Sequence[Stored]) -> list[Document]:
        named = [stored.document.get("image") for stored in records]
        named += [each.get("icon_id") for stored in records for each in stored.document.get("search_helps", ())]
        images = await images_at(self.environment.views, call.account, filter(None, named))
        return [timeslot_read(call.account, stored, images) for stored in records]


def _changes(items: object) -> Iterator[tuple[str, Change]]:
    """Yield each item's timeslot key ("" for a new one) and its change."""
    if not isinstance(items, list) or len(items) > AT_ONCE:
        raise ValidationFailed([Problem("", f"timeslots must be a list of up to {AT_ONCE:,}")])
    for item in items:
        key = item.get("timeslot_key") if isinstance(item, dict) else None
        if not isinstance(item, dict) or not isinstance(key, str | None):
            yield "", _no_timeslot
        else:
            yield key or "", partial(timeslot_of_several, item)


def _no_timeslot(_: Document | None) -> Document:
    raise ValidationFailed([Problem("", "must be an object with a text as its timeslot_key, if any")])
