"""Creates records of every resource over HTTP from rows of the specification's table."""

import copy
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from tests.e2e.current_api.specification import FIELDS, ITEMS, PART, SERVER, Key, Kind
from tests.support.clients.http_clients import ok

Document = dict[str, Any]
Keys = Mapping[str, tuple[str, str]]

MINIMUM = {"files": {"filename": "a.txt", "file_extension": "txt", "file_type": "text/plain"}}
ITEM: dict[str, Document] = {
    "days": {"id": "one"},
    "venues": {"id": "one"},
    "sub_rating_configs": {"sub_rating_id": "one"},
    "positions": {"id": "one"},
}
"""The least that an item of a list may be."""


@dataclass(frozen=True)
class Records:
    """The API, and two records of each resource that others refer to."""

    client: httpx.AsyncClient
    keys: Keys

    def address(self, resource: str) -> str:
        """Where one is created."""
        if resource == "surveys":
            return f"/surveys/{uuid.uuid4().hex}"
        if resource == "timeslots":
            return f"/conventions/{self.keys['conventions'][0]}/timeslots"
        return f"/{resource}"

    async def create(self, resource: str, body: Document) -> httpx.Response:
        return await self.client.post(self.address(resource), json=body)

    async def made(self, resource: str, body: Document) -> Document:
        return ok(await self.create(resource, body), 201)

    async def patch(self, resource: str, key: str, patch: Document) -> httpx.Response:
        return await self.client.patch(f"/{resource}/{key}", json=patch)

    async def read(self, resource: str, key: str) -> Document:
        return ok(await self.client.get(f"/{resource}/{key}"))

    def body(self, resource: str, values: Mapping[str, Any]) -> Document:
        """A body with a value at each pointer, and what a body needs at least."""
        body = copy.deepcopy(MINIMUM.get(resource, {}))
        for path, value in values.items():
            _put(body, path.split("/"), self.named(value))
        return body

    def named(self, value: Any) -> Any:
        """The value with real keys in place of `Key`."""
        match value:
            case Key():
                return self.keys[value.resource][value.number]
            case dict():
                return {name: self.named(item) for name, item in value.items()}
        return value


def values_of(resource: str, value: Callable[[Kind], Any]) -> dict[str, Any]:
    """`value` of each row that is neither the server's nor made of other rows."""
    return {path: value(kind) for path, kind in leaves(resource)}


def leaves(resource: str) -> Iterator[tuple[str, Kind]]:
    return ((path, kind) for path, kind in FIELDS[resource].items() if kind not in (PART, ITEMS, SERVER))


def at(record: Document, path: str) -> Any:
    """Return the value at a path; in lists, of their first item."""
    found: Any = record
    for step in path.split("/"):
        found = found[0] if step == "*" else found[step]
    return found


def _put(body: Document, steps: list[str], value: Any) -> None:
    name, *rest = steps
    if not rest:
        body[name] = value
    elif rest[0] == "*":
        [item] = body.setdefault(name, [copy.deepcopy(ITEM.get(name, {}))])
        _put(item, rest[1:], value)
    else:
        _put(body.setdefault(name, {}), rest, value)
