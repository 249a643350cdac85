"""Errors of the legacy API, which distinguish another brand's record from a missing one."""

from collections.abc import Mapping
from typing import Final, Protocol

from libs.catalogue.resource_definition import Resource
from libs.tally.errors import NotFound, TallyError

NAMES: Final[Mapping[str, str]] = {"feeds": "articlefeed"}
"""Names of a record in error messages, if different from `singular`, by resource."""


class Owners(Protocol):
    """Finds the owners of records in the catalogue's views."""

    async def find_owner(self, resource: str, key: str) -> str | None: ...


class NoPermission(TallyError):
    """The record belongs to another brand."""

    code = "forbidden"


async def missing_record(owners: Owners, row: Resource, key: str) -> TallyError:
    """Return the error for a record that the account does not have."""
    name = NAMES.get(row.name, row.singular)
    if await owners.find_owner(row.name, key) is None:
        return NotFound(f"{name} not found")
    return NoPermission(f"no permission to {name}")
