"""Reads and writes records of one resource for the legacy API, with its error messages."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

from libs.catalogue.commands import WriteRequest
from libs.catalogue.errors import UnknownReferences
from libs.catalogue.pagination import ListRequest, Page
from libs.catalogue.records import RecordService
from libs.catalogue.resource_definition import Document, Resource
from libs.contracts.catalogue_events import Stored
from libs.contracts.validation import ValidationFailed
from libs.legacy.translator import Translator
from libs.tally.errors import NotFound, TallyError
from libs.views.catalogue.catalogue_views import CatalogueViews

PAGE: Final = 20
"""Records per page of the lists with a `next`."""
WHOLE: Final = 1_000
"""Records of the lists without a documented `next`; it follows only after so many."""
Filter = Callable[[Stored], bool]
Change = Callable[[Document | None], Document]
"""Returns the new, not yet validated, document for the old one (None: new record); raises to reject the write."""


class LegacyRecords:
    """The records of `row` in one environment, translated by `translator`.

    Errors for missing records and references are "... not found", for another brand's records "no permission to
    ..."; invalid values are named by their legacy parameters.
    """

    def __init__(
        self, record_service: RecordService, views: CatalogueViews, row: Resource, translator: Translator
    ) -> None:
        self._record_service = record_service
        self._views = views
        self._row = row
        self._translator = translator

    async def get(self, account: str, key: str) -> Stored:
        async with self._legacy_errors(self._row, key):
            return await self._record_service.get(self._row, account, key)

    async def page(
        self, account: str, token: str | None, parent: str = "", fits: Filter | None = None, limit: int = PAGE
    ) -> Page:
        """Return a page, newest first, after the previous page's `token`; `fits` filters the records."""
        async with self._legacy_errors(self._above(), parent):
            request = ListRequest(limit, token, fits=fits)
            return await self._record_service.page(self._row, account, request, parent)

    async def create(self, account: str, change: Change, parent: str = "") -> Stored:
        async with self._legacy_errors(self._above(), parent):
            document = change(None)
            return (
                await self._record_service.create(self._row, account, document, WriteRequest.once(), parent=parent)
            ).stored

    async def change(self, account: str, key: str, change: Change) -> Stored:
        """Change a record; `change` is called again after a lost race."""
        async with self._legacy_errors(self._row, key):
            return await self._record_service.change(self._row, account, key, change)

    async def write_together(
        self, account: str, parent: str, changes: Sequence[tuple[str, Change]]
    ) -> list[Stored]:
        """Write several records, as `RecordService`; pointers of problems start with the index in `changes`."""
        await asyncio.gather(*(self.get(account, key) for key, _ in changes if key))
        async with self._legacy_errors(self._above(), parent):
            return await self._record_service.write_together(self._row, account, parent, changes)

    async def delete(self, account: str, key: str) -> None:
        async with self._legacy_errors(self._row, key):
            await self._record_service.delete(self._row, account, key)

    def legacy_errors(self, key: str = "") -> AbstractAsyncContextManager[None]:
        """Translate the errors of other operations on one record."""
        return self._legacy_errors(self._row, key)

    def _above(self) -> Resource:
        """Return the parent resource, or the resource itself without a parent."""
        return self._row if self._row.parent is None else self._record_service.table[self._row.parent]

    @asynccontextmanager
    async def _legacy_errors(self, row: Resource, key: str) -> AsyncIterator[None]:
        """Translate errors; `row` and `key` name the record that `NotFound` refers to."""
        try:
            yield
        except NotFound as error:
            raise await missing_record(self._views, row, key) from error
        except UnknownReferences as error:
            for resource, missing in error.missing:
                if resource in self._record_service.table:
                    raise await missing_record(
                        self._views, self._record_service.table[resource], missing
                    ) from error
            raise self._translator.renamed(error) from error
        except ValidationFailed as error:
            raise self._translator.renamed(error) from error


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
