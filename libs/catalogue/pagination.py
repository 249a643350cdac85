"""Pagination of lists: request, page, and the opaque token of the next page."""

import base64
import binascii
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from libs.catalogue.resource_definition import Resource
from libs.concurrency.turns import in_turns
from libs.contracts.catalogue_events import Stored
from libs.contracts.validation import no_token
from libs.views.catalogue.catalogue_views import CatalogueViews, Order

Place = int | str
"""Position of a record in a list of one order: `CatalogueViews.page`."""

SCAN_SIZE: Final = 100
"""Records per read of a long page, or with a filter."""
MAX_SCANNED: Final = 2_000
"""Maximum number of records scanned for a page; then it ends, possibly short, with a token to continue."""
PAGE_BYTES: Final = 2 << 20
"""Size of a page's records; a page ends before the record that would exceed it, but has one at least."""
SCANNED_BYTES: Final = 8 * PAGE_BYTES
"""Size of the records scanned for a page."""
_NUMBER: Final = re.compile(r"[0-9]{1,16}")
_SORTED: Final = re.compile(r"[^\x00]{1,64}\x00[A-Za-z0-9_.~-]{1,130}")
_RANK: Final = re.compile(r"([0-9]{1,16})\.([0-9]{1,16})")


@dataclass(frozen=True, slots=True)
class ListRequest:
    """Request of one page, in the order `sorted_by`, by default newest first.

    `updated_since` (us) orders by `updated` instead; all `tags` must match, as must `fits`.
    """

    limit: int
    next: str | None = None
    tags: tuple[str, ...] = ()
    updated_since: int | None = None
    fits: Callable[[Stored], bool] | None = None
    sorted_by: Order = "created"

    @property
    def order(self) -> Order:
        return self.sorted_by if self.updated_since is None else "updated"


@dataclass(frozen=True, slots=True)
class Page:
    """One page in its order. `next` is None at the end."""

    records: list[Stored]
    next: str | None


class Ranked(NamedTuple):
    """A record in a list by votes: most first, then by running number."""

    votes: int
    stored: Stored

    @property
    def place(self) -> tuple[int, int]:
        return -self.votes, self.stored.number


async def read_page(views: CatalogueViews, account: str, row: Resource, parent: str, request: ListRequest) -> Page:
    """Read one page. Stable: concurrent writes do not move records of later pages, unless they change the members
    that the list is sorted by."""
    after = "" if request.next is None else _after(request.next, request.order)
    found: list[Stored] = []
    page_bytes, scanned, scanned_bytes = 0, 0, 0
    while True:
        most = SCAN_SIZE if request.tags or request.fits else min(request.limit, SCAN_SIZE)
        batch = await views.page(
            account,
            row.name,
            parent=parent,
            order=request.order,
            after=after,
            since=request.updated_since,
            limit=most + 1,
            most_bytes=PAGE_BYTES,
        )
        ends = len(batch) <= most and size_of(batch) <= PAGE_BYTES
        async for stored in in_turns(batch if ends else batch[:-1], bytes_of):
            if _fits(stored, request):
                page_bytes += bytes_of(stored)
                if found and page_bytes > PAGE_BYTES:
                    return Page(found, _token(request.order, after))
                found.append(stored)
            after = _place(row, stored, request.order)
            if len(found) == request.limit:
                return Page(found, None if ends and stored is batch[-1] else _token(request.order, after))
        scanned += len(batch)
        scanned_bytes += size_of(batch)
        if ends:
            return Page(found, None)
        if scanned >= MAX_SCANNED or scanned_bytes >= SCANNED_BYTES:
            return Page(found, _token(request.order, after))


def bytes_of(stored: Stored) -> int:
    """Return about the size of a record."""
    return len(stored.record)


def size_of(records: Iterable[Stored]) -> int:
    return sum(map(bytes_of, records))


def ranked_page(ranked: Sequence[Ranked], request: ListRequest) -> Page:
    """Return a page of a list by votes, in the order of `Ranked.place`. It follows the votes at each request."""
    first = 0
    if request.next is not None:
        match = _RANK.fullmatch(_text(request.next, "votes"))
        if match is None:
            raise no_token()
        first = bisect_right(ranked, (-int(match[1]), int(match[2])), key=lambda each: each.place)
    found: list[Stored] = []
    for at, each in enumerate(ranked[first : first + MAX_SCANNED], start=first + 1):
        found += [each.stored] if _fits(each.stored, request) else []
        if at < len(ranked) and (len(found) == request.limit or at == first + MAX_SCANNED):
            return Page(found, _token("votes", f"{each.votes}.{each.stored.number}"))
        if len(found) == request.limit:
            break
    return Page(found, None)


def token_after(row: Resource, stored: Stored, order: Order) -> str:
    """Return the token of the page after a record."""
    return _token(order, _place(row, stored, order))


def _place(row: Resource, stored: Stored, order: Order) -> Place:
    match order:
        case "updated":
            return stored.updated
        case "sort_key":
            return f"{row.sort_key(stored.document)}\0{stored.key}"
    return stored.created


def _fits(stored: Stored, request: ListRequest) -> bool:
    if request.tags and not set(request.tags) <= set(stored.document.get("tags", ())):
        return False
    return request.fits is None or request.fits(stored)


def _token(order: str, place: Place) -> str:
    return base64.urlsafe_b64encode(f"{order}:{place}".encode()).rstrip(b"=").decode()


def _after(token: str, order: Order) -> Place:
    """Return the place in a token of this order. Raises `ValidationFailed`."""
    text = _text(token, order)
    if (_SORTED if order == "sort_key" else _NUMBER).fullmatch(text) is None:
        raise no_token()
    return text if order == "sort_key" else int(text)


def _text(token: str, order: str) -> str:
    """Return the text of a token of this order. Raises `ValidationFailed`."""
    try:
        text = base64.b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise no_token() from None
    named, _, place = text.partition(":")
    if named != order or _token(order, place) != token:
        raise no_token()
    return place
