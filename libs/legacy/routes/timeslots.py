"""Routes of timeslots in the legacy API, single and in batches."""

from collections.abc import Iterator, Sequence
from functools import partial

from libs.catalogue.resource import Document
from libs.catalogue.resources import TIMESLOTS
from libs.contracts.catalogue import Stored
from libs.contracts.validation import Problem, ValidationFailed
from libs.legacy.records import Change
from libs.legacy.routes.routing import NEXT, Call, LegacyEnvironment, LegacyRoutes, page_of
from libs.legacy.translators.models import LegacyTimeslot, LegacyTimeslots
from libs.legacy.translators.participants import images_at
from libs.legacy.translators.timeslots import (
    AT_ONCE,
    MULTI,
    REQUIRED,
    TIMESLOT,
    timeslot_of_several,
    timeslot_read,
    timeslot_written,
)


def add_timeslots(routes: LegacyRoutes, environment: LegacyEnvironment) -> None:
    handlers, parameters = _Timeslots(environment), TIMESLOT.parameters
    several, one = "/dev/v2/conventions/{convention_key}/timeslots", "/dev/v2/timeslots/{timeslot_key}"
    multi = "/v2/conventions/{convention_key}/timeslots/multi"
    routes.add("GET", several, handlers.list_timeslots, query={"next": NEXT}, model=LegacyTimeslots)
    routes.add(
        "POST",
        several,
        handlers.create_timeslot,
        parameters=parameters,
        required=REQUIRED,
        model=LegacyTimeslot,
    )
    routes.add(
        "POST",
        multi,
        handlers.write_several_timeslots,
        parameters=MULTI,
        required=("timeslots",),
        model=LegacyTimeslots,
    )
    routes.add("GET", one, handlers.get_timeslot, model=LegacyTimeslot)
    routes.add("POST", one, handlers.update_timeslot, parameters=parameters, model=LegacyTimeslot)
    routes.add("DELETE", one, handlers.delete_timeslot)


class _Timeslots:
    def __init__(self, environment: LegacyEnvironment) -> None:
        self._environment = environment
        self._records = environment.records(TIMESLOTS, TIMESLOT)

    async def list_timeslots(self, call: Call) -> Document:
        """Newest first, 20 a page."""
        page = await self._records.page(call.account, call.query("next"), call.path("convention_key"))
        return page_of("timeslots", await self._shown(call, page.records), page)

    async def create_timeslot(self, call: Call) -> Document:
        """`start` and `end` are required; day and venue must belong to the convention."""
        body, parent = await call.parameters(TIMESLOT.parameters), call.path("convention_key")
        stored = await self._records.create(call.account, partial(timeslot_written, body), parent)
        return await self._answer(call, stored)

    async def write_several_timeslots(self, call: Call) -> Document:
        """Writes all timeslots or none; at most 1,000, all of this convention.

        An item with `timeslot_key` updates that timeslot, others create one. Each needs `start` and `end`.
        """
        items = (await call.parameters(MULTI)).get("timeslots")
        changes = list(_changes(items))
        written = await self._records.write_together(call.account, call.path("convention_key"), changes)
        return {"timeslots": await self._shown(call, written)}

    async def get_timeslot(self, call: Call) -> Document:
        """The timeslot may belong to any convention of the brand."""
        return await self._answer(call, await self._records.get(call.account, call.path("timeslot_key")))

    async def update_timeslot(self, call: Call) -> Document:
        """Takes the parameters of create; those left out keep their value."""
        body, key = await call.parameters(TIMESLOT.parameters), call.path("timeslot_key")
        stored = await self._records.change(call.account, key, partial(timeslot_written, body))
        return await self._answer(call, stored)

    async def delete_timeslot(self, call: Call) -> None:
        """Deletes the timeslot; its convention stays."""
        await self._records.delete(call.account, call.path("timeslot_key"))

    async def _answer(self, call: Call, stored: Stored) -> Document:
        [shape] = await self._shown(call, [stored])
        return shape

    async def _shown(self, call: Call, records: Sequence[Stored]) -> list[Document]:
        named = [stored.document.get("image") for stored in records]
        named += [each.get("icon_id") for stored in records for each in stored.document.get("search_helps", ())]
        images = await images_at(self._environment.views, call.account, filter(None, named))
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
