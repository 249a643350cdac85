"""Refusals in the words of the specification's legacy part, which tells another brand's record from none."""

from typing import Protocol

from libs.catalogue.resource import Resource
from libs.tally.errors import NotFound, TallyError


class Owners(Protocol):
    """What is needed of the catalogue's views."""

    async def find_owner(self, resource: str, key: str) -> str | None: ...


class NoPermission(TallyError):
    """It is another brand's."""

    code = "forbidden"


async def not_there(owners: Owners, row: Resource, key: str) -> TallyError:
    """Why an account has no such record."""
    name = row.legacy or row.singular
    if await owners.find_owner(row.name, key) is None:
        return NotFound(f"{name} not found")
    return NoPermission(f"no permission to {name}")
