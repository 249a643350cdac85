"""Pagination of purchase lists: the page model and its opaque continuation token."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as BadBase64
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from pydantic import BaseModel, Field

from libs.contracts.purchase_events import Purchase, PurchasePlace
from libs.contracts.validation import Problem, ValidationFailed
from libs.purchases.responses import PurchaseShown
from libs.views.purchases.purchase_views import Listed, Unreadable
from libs.web.door.common_parameters import MOST_LISTED
from libs.web.door.request_parsing import integer_parameter

TOKEN: Final = re.compile(r"([0-9]{1,16}):([A-Za-z0-9_-]{22})")

Reader = Callable[[PurchasePlace | None, int], Awaitable[list[Listed]]]
"""Reads at most so many purchases after a place, newest first."""


class PurchasePage(BaseModel):
    """A page of purchases, newest first."""

    data: list[PurchaseShown] = Field(description="Purchases, newest first, without unreadable ones.")
    has_more: bool = Field(description="True if there is another page.")
    next: str | None = Field(description="Token of the next page: send it as `?next=`.")


class PageRequest(NamedTuple):
    """The parameters of a list, as sent."""

    limit: str | int
    next: str | None


async def read_page(
    request: PageRequest, read: Reader, shown: Callable[[list[Purchase | Unreadable]], list[PurchaseShown]]
) -> PurchasePage:
    """Return the requested page, without purchases that cannot be read. Raises `ValidationFailed`."""
    limit = integer_parameter(request.limit, "limit", 1, MOST_LISTED)
    found = await read(_place(request.next), limit + 1)
    page, more = found[:limit], len(found) > limit
    return PurchasePage(
        data=shown([one.purchase for one in page]),
        has_more=more,
        next=_token(page[-1].place) if more else None,
    )


def _token(place: PurchasePlace) -> str:
    return urlsafe_b64encode(f"{place.at}:{place.key}".encode()).rstrip(b"=").decode()


def _place(token: str | None) -> PurchasePlace | None:
    """Decode a token. Raises `ValidationFailed` for an invalid one."""
    if token is None:
        return None
    try:
        match = TOKEN.fullmatch(urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode("ascii"))
    except (BadBase64, ValueError):
        match = None
    if match is None:
        raise ValidationFailed([Problem("", "next is not a token of this list: start without it", "next")])
    return PurchasePlace(int(match[1]), match[2])
