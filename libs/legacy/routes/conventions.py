"""Routes of conventions in the legacy API."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from libs.catalogue.resource_definition import Document
from libs.catalogue.resource_table import CONVENTIONS
from libs.contracts.catalogue_events import Stored
from libs.legacy.parameters.conventions import CONVENTION, REQUIRED, SHAPE, convention_read, convention_written
from libs.legacy.parameters.participants import images_at
from libs.legacy.records import WHOLE
from libs.legacy.routes.resource_handlers import UPDATE, ResourceHandlers
from libs.legacy.routes.route_builder import Call


class Conventions(ResourceHandlers):
    name, several, one = "convention", "/dev/v2/conventions", "/dev/v2/conventions/{convention_key}"
    row, translator, shape, required = CONVENTIONS, CONVENTION, SHAPE, REQUIRED
    written = staticmethod(convention_written)
    page_size = WHOLE
    docs: ClassVar[Mapping[str, str]] = {
        "create": "`start` and `end` are required.",
        "get": "Includes its days and venues; timeslots have their own list.",
        "update": f"{UPDATE} A day or venue with timeslots cannot be removed.",
        "delete": "Deletes the convention and its timeslots.",
    }

    async def shown(self, call: Call, records: Sequence[Stored]) -> list[Document]:
        icons = (each.get("icon_id") for stored in records for each in stored.document.get("search_helps", ()))
        images = await images_at(self.environment.views, call.account, filter(None, icons))
        return [convention_read(call.account, stored, images) for stored in records]
