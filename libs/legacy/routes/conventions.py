"""Routes of conventions in the legacy API."""

from collections.abc import Sequence
from functools import partial

from libs.catalogue.resource import Document
from libs.catalogue.resources import CONVENTIONS
from libs.contracts.catalogue import Stored
from libs.legacy.routes.routing import NEXT, Call, LegacyEnvironment, LegacyRoutes, page_of
from libs.legacy.translators.conventions import CONVENTION, REQUIRED, convention_read, convention_written
from libs.legacy.translators.models import LegacyConvention, LegacyConventions
from libs.legacy.translators.participants import images_at


def add_conventions(routes: LegacyRoutes, environment: LegacyEnvironment) -> None:
    handlers, parameters = _Conventions(environment), CONVENTION.parameters
    several, one = "/dev/v2/conventions", "/dev/v2/conventions/{convention_key}"
    routes.add("GET", several, handlers.list_conventions, query={"next": NEXT}, model=LegacyConventions)
    routes.add(
        "POST",
        several,
        handlers.create_convention,
        parameters=parameters,
        required=REQUIRED,
        model=LegacyConvention,
    )
    routes.add("GET", one, handlers.get_convention, model=LegacyConvention)
    routes.add("POST", one, handlers.update_convention, parameters=parameters, model=LegacyConvention)
    routes.add("DELETE", one, handlers.delete_convention)


class _Conventions:
    def __init__(self, environment: LegacyEnvironment) -> None:
        self._environment = environment
        self._records = environment.records(CONVENTIONS, CONVENTION)

    async def list_conventions(self, call: Call) -> Document:
        """Newest first, 20 a page."""
        page = await self._records.page(call.account, call.query("next"))
        return page_of("conventions", await self._shown(call, page.records), page)

    async def create_convention(self, call: Call) -> Document:
        """`start` and `end` are required."""
        body = await call.parameters(CONVENTION.parameters)
        stored = await self._records.create(call.account, partial(convention_written, body))
        return await self._answer(call, stored)

    async def get_convention(self, call: Call) -> Document:
        """Includes its days and venues; timeslots have their own list."""
        return await self._answer(call, await self._records.get(call.account, call.path("convention_key")))

    async def update_convention(self, call: Call) -> Document:
        """Takes the parameters of create; those left out keep their value. A day or venue with timeslots cannot be
        removed.
        """
        body, key = await call.parameters(CONVENTION.parameters), call.path("convention_key")
        stored = await self._records.change(call.account, key, partial(convention_written, body))
        return await self._answer(call, stored)

    async def delete_convention(self, call: Call) -> None:
        """Deletes the convention and its timeslots."""
        await self._records.delete(call.account, call.path("convention_key"))

    async def _answer(self, call: Call, stored: Stored) -> Document:
        [shape] = await self._shown(call, [stored])
        return shape

    async def _shown(self, call: Call, records: Sequence[Stored]) -> list[Document]:
        icons = (each.get("icon_id") for stored in records for each in stored.document.get("search_helps", ()))
        images = await images_at(self._environment.views, call.account, filter(None, icons))
        return [convention_read(call.account, stored, images) for stored in records]
