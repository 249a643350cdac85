"""Errors of the legacy API, which distinguish another brand's record from a missing one."""

from collections.abc import Mapping
from typing import Final

from libs.catalogue.resource_definition import Resource
from libs.tally.errors import NotFound, TallyError
from libs.views.catalogue_views import CatalogueViews

NAMES: Final[Mapping[str, str]] = {"feeds": "articlefeed"}
"""Names of a record in error messages, if different from `singular`, by resource."""


class NoPermission(TallyError):
    """The record belongs to another brand."""

    code = "forbidden"


async def missing_record(views: CatalogueViews, row: Resource, key: str) -> TallyError:
    """Return the error for a record that the account does not have."""
    name = NAMES.get(row.name, row.singular)
    if await views.find_owner(row.name, key) is None:
        return NotFound(f"{name} not found")
    return NoPermission(f"no permission to {name}")
