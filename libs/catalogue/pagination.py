"""Pagination of lists: request, page, and the opaque token of the next page."""

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from libs.contracts.catalogue_events import Stored
from libs.contracts.validation import Problem, ValidationFailed

Order = Literal["created", "updated"]

SCAN_SIZE: Final = 100
"""Records per read with a filter."""
MAX_SCANNED: Final = 2_000
"""Maximum number of records scanned for a page; then it ends, possibly short, with a token to continue."""
_TOKEN: Final = re.compile(r"(created|updated):([0-9]{1,16})")


class ListReader(Protocol):
    """Reads lists from the catalogue's views."""

    async def page(
        self,
        account: str,
        resource: str,
        *,
        parent: str = "",
        order: Order = "created",
        before: int | None = None,
        since: int | None = None,
        limit: int,
    ) -> list[Stored]: ...


@dataclass(frozen=True, slots=True)
class ListRequest:
    """Request of one page. `updated_since` (us) orders by `updated`; all `tags` must match, as must `fits`."""

    limit: int
    next: str | None = None
    tags: tuple[str, ...] = ()
    updated_since: int | None = None
    fits: Callable[[Stored], bool] | None = None

    @property
    def order(self) -> Order:
        return "created" if self.updated_since is None else "updated"


@dataclass(frozen=True, slots=True)
class Page:
    """One page, newest first. `next` is None at the end."""

    records: list[Stored]
    next: str | None


async def read_page(reader: ListReader, account: str, resource: str, parent: str, request: ListRequest) -> Page:
    """Read one page. Stable: concurrent writes do not move records of later pages."""
    before = None if request.next is None else _before(request)
    found: list[Stored] = []
    scanned = 0
    while True:
        most = SCAN_SIZE if request.tags or request.fits else request.limit
        batch = await reader.page(
            account,
            resource,
            parent=parent,
            order=request.order,
            before=before,
            since=request.updated_since,
            limit=most + 1,
        )
        for index, stored in enumerate(batch[:most]):
            before = _place(stored, request.order)
            if _fits(stored, request):
                found.append(stored)
                if len(found) == request.limit:
                    return Page(found, _token(request.order, before) if index + 1 < len(batch) else None)
        scanned += most
        if len(batch) <= most or before is None:
            return Page(found, None)
        if scanned >= MAX_SCANNED:
            return Page(found, _token(request.order, before))


def _place(stored: Stored, order: Order) -> int:
    return stored.created if order == "created" else stored.updated


def _fits(stored: Stored, request: ListRequest) -> bool:
    if request.tags and not set(request.tags) <= set(stored.document.get("tags", ())):
        return False
    return request.fits is None or request.fits(stored)


def _token(order: Order, place: int) -> str:
    return base64.urlsafe_b64encode(f"{order}:{place}".encode()).rstrip(b"=").decode()


def _before(request: ListRequest) -> int:
    token = request.next or ""
    try:
        text = base64.b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        text = ""
    match = _TOKEN.fullmatch(text)
    if match is None or match[1] != request.order or _token(request.order, int(match[2])) != token:
        raise ValidationFailed([Problem("", "next is not a token of this list")])
    return int(match[2])
