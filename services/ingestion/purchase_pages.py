"""Lists of purchases: the envelope, and the opaque token between two pages."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as BadBase64
from collections.abc import Awaitable, Callable
from typing import Final

from fastapi import Request
from pydantic import BaseModel, Field

from libs.contracts.problems import Problem, ValidationFailed
from libs.contracts.purchases import Place, Purchase
from libs.purchases.shown import PurchaseShown
from libs.web.requests import integer_parameter

MOST_LISTED: Final = 100
LISTED: Final = 20
TOKEN: Final = re.compile(r"([0-9]{1,16}):([A-Za-z0-9_-]{22})")

Reader = Callable[[Place | None, int], Awaitable[list[Purchase]]]
"""Purchases behind a place, newest first, so many at most."""
PlaceOf = Callable[[Purchase], Place]


class PurchasePage(BaseModel):
    """A page, newest first."""

    data: list[PurchaseShown] = Field(description="Newest first.")
    has_more: bool = Field(description="Whether there is another page.")
    next: str | None = Field(description="Give it back as `?next=`.")


async def read_page(
    request: Request, read: Reader, place_of: PlaceOf, shown: Callable[[Purchase], PurchaseShown]
) -> PurchasePage:
    """The page that the query asks for. Raises `ValidationFailed`."""
    limit = integer_parameter(request, "limit", LISTED, 1, MOST_LISTED)
    found = await read(_place(request.query_params.get("next")), limit + 1)
    page, more = found[:limit], len(found) > limit
    return PurchasePage(
        data=[shown(purchase) for purchase in page],
        has_more=more,
        next=_token(place_of(page[-1])) if more else None,
    )


def by_creation(purchase: Purchase) -> Place:
    return Place(purchase.created, purchase.key)


def by_change(purchase: Purchase) -> Place:
    return Place(purchase.updated, purchase.key)


def _token(place: Place) -> str:
    return urlsafe_b64encode(f"{place.at}:{place.key}".encode()).rstrip(b"=").decode()


def _place(token: str | None) -> Place | None:
    """Raises `ValidationFailed` for what is no token of these lists."""
    if token is None:
        return None
    try:
        match = TOKEN.fullmatch(urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode("ascii"))
    except (BadBase64, ValueError):
        match = None
    if match is None:
        raise ValidationFailed([Problem("", "next is not a token of this list")])
    return Place(int(match[1]), match[2])
