"""The five operations that legacy resources have alike: list, create, get, update and delete."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from libs.catalogue.resource_definition import Document, Resource
from libs.contracts.catalogue_events import Stored
from libs.legacy.parameters.read_shapes import page
from libs.legacy.parameters.translator import JsonSchema, Translator
from libs.legacy.records import PAGE, Filter
from libs.legacy.routes.route_builder import NEXT, Call, LegacyEnvironment, LegacyRoutes

LIST: Final = "The brand's {}, {:,} a page, newest first."
UPDATE: Final = "Takes the parameters of create; those left out keep their value."


class ResourceHandlers:
    """Serves one resource, whose records are `name`; subclasses return the records' shapes.

    `several` and `one` are the paths of the list, perhaps below a parent, and of a record.
    `docs` describes operations, by their names.
    """

    name: ClassVar[str]
    several: ClassVar[str]
    one: ClassVar[str]
    row: ClassVar[Resource]
    translator: ClassVar[Translator]
    shape: ClassVar[JsonSchema]
    required: ClassVar[Sequence[str]] = ()
    query: ClassVar[Mapping[str, JsonSchema]] = {"next": NEXT}
    docs: ClassVar[Mapping[str, str]] = {}
    page_size: ClassVar[int] = PAGE

    def __init__(self, environment: LegacyEnvironment) -> None:
        self.environment = environment
        self.records = environment.records(self.row, self.translator)

    @staticmethod
    def written(body: Mapping[str, Any], before: Document | None) -> Document:
        """Apply the parameters to a record, as `Translator.written`."""
        raise NotImplementedError

    async def shown(self, call: Call, records: Sequence[Stored]) -> list[Document]:
        """Return the records' shapes."""
        raise NotImplementedError

    async def body(self, call: Call) -> Document:
        """Parse the body. Raises `ValidationFailed` for values that depend on other records."""
        return await call.parameters(self.translator.parameters)

    def filter(self, _: Call) -> Filter | None:
        """Return the filter of a list's query."""
        return None

    def add_to(self, routes: LegacyRoutes) -> None:
        docs = {"list": LIST.format(f"{self.name}s", self.page_size), "update": UPDATE} | dict(self.docs)
        parameters = self.translator.parameters
        shaped: dict[str, Any] = {"shape": self.shape}
        operations: dict[str, tuple[Any, dict[str, Any]]] = {
            "list": (self.list, {"query": self.query, "shape": page(f"{self.name}s", self.shape)}),
            "create": (self.create, shaped | {"parameters": parameters, "required": self.required}),
            "get": (self.get, shaped),
            "update": (self.update, shaped | {"parameters": parameters}),
            "delete": (self.delete, {}),
        }
        for operation, (handler, options) in operations.items():
            name = f"{operation}_{self.name}" + ("s" if operation == "list" else "")
            path = self.several if operation in ("list", "create") else self.one
            method = {"list": "GET", "get": "GET", "delete": "DELETE"}.get(operation, "POST")
            routes.add(method, path, handler, name=name, description=docs[operation], **options)

    async def list(self, call: Call) -> Document:
        fits, parent = self.filter(call), _key(call, self.several)
        found = await self.records.page(call.account, call.query("next"), parent, fits, self.page_size)
        shapes = await self.shown(call, found.records)
        return {f"{self.name}s": shapes} | ({} if found.next is None else {"next": found.next})

    async def create(self, call: Call) -> Document:
        change = partial(self.written, await self.body(call))
        return await self.answer(call, await self.records.create(call.account, change, _key(call, self.several)))

    async def get(self, call: Call) -> Document:
        return await self.answer(call, await self.records.get(call.account, _key(call, self.one)))

    async def update(self, call: Call) -> Document:
        change = partial(self.written, await self.body(call))
        return await self.answer(call, await self.records.change(call.account, _key(call, self.one), change))

    async def delete(self, call: Call) -> None:
        await self.records.delete(call.account, _key(call, self.one))

    async def answer(self, call: Call, stored: Stored) -> Document:
        [shape] = await self.shown(call, [stored])
        return shape


def _key(call: Call, path: str) -> str:
    """Return the value of the path's parameter; "" if it has none."""
    match = re.search(r"{(\w+)}", path)
    return "" if match is None else call.path(match[1])
