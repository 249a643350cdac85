"""Routes by which payment platforms record purchases and refunds, and developers read them."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as BadBase64
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Request
from pydantic import BaseModel
from starlette.responses import Response

from libs.contracts.catalogue_events import ApiKey
from libs.contracts.limits import COMMAND_BODY, PURCHASE_BODY
from libs.contracts.purchase_events import Purchase, PurchasePlace
from libs.contracts.validation import no_token
from libs.purchases.encryption import SecretLost
from libs.purchases.schemas import (
    PurchaseForm,
    PurchaseShown,
    PurchaseUnreadable,
    RefundForm,
    RefundShown,
    report,
    show,
    show_all,
)
from libs.purchases.service import PurchaseService
from libs.tally.errors import NotFound
from libs.views.purchases.purchase_views import Listed, Unreadable
from libs.web.documents.openapi import REPLAYED, problems
from libs.web.door.auth import Authenticator
from libs.web.door.request_parsing import RequestKeyStore, is_repetition
from libs.web.door.typed_routes import (
    LISTED,
    IdempotencyKey,
    JsonBody,
    Limit,
    ListPage,
    Next,
    Permitted,
    Sent,
    TypedRoute,
)

TOKEN: Final = re.compile(r"([0-9]{1,16}):([A-Za-z0-9_-]{22})")
UserId = Annotated[str, Path(description="The user's id as sent by the payment platform.")]
Reader = Callable[[PurchasePlace | None, int], Awaitable[list[Listed]]]
"""Reads at most so many purchases after a place, newest first."""


def purchase_router(auth: Authenticator, register: PurchaseService, requests: RequestKeyStore) -> APIRouter:
    """Build the routes. Every write may be sent again: its token or key makes it idempotent."""
    router = APIRouter(tags=["purchases"], route_class=TypedRoute)
    Platform = Annotated[ApiKey, Depends(Permitted(auth, "purchases:write"))]
    Developer = Annotated[ApiKey, Depends(Permitted(auth, "purchases:read"))]
    Report = Annotated[Sent[PurchaseForm], Depends(JsonBody(PurchaseForm, PURCHASE_BODY))]
    Token = Annotated[Sent[RefundForm], Depends(JsonBody(RefundForm, COMMAND_BODY))]

    async def refunded(caller: ApiKey, purchase: Purchase, replayed: bool) -> Response:
        if purchase.recorded is None:
            return _recorded(RefundShown(key=purchase.key, status=purchase.status), replayed)
        return _recorded(await show_to(caller, register, purchase), replayed)

    @router.post(
        "/operations/purchases",
        status_code=202,
        responses={
            202: {
                "model": PurchaseShown,
                "description": "Recorded; its votes are cast within seconds. Or its later state is recorded.",
                "headers": REPLAYED,
            },
            **problems("purchase_unreadable"),
        },
    )
    async def record_purchase(
        request: Request, caller: Platform, sent: Report, idempotency_key: IdempotencyKey = None
    ) -> Response:
        """Record a purchase.

        The purchase_token is the idempotency key: sent again with the same content it changes nothing and gets the
        current record with `Idempotent-Replayed: true`. The votes of the type `vote` are cast as `c-paid` for the
        buyer, exactly once, all or none; purchases that cannot be cast are on the refund list.

        Sent again with another `subscription`, `expiration` or `refunded`, it is a later state of the purchase,
        such as a renewal, a cancellation or an expiry. The payment platform's own time, `reported_at`, orders the
        states; one that arrives late changes nothing. Other content of a known purchase_token is 422
        `idempotency_key_reused`, as is another state of the same `reported_at`. In a body `key`, `created`,
        `updated`, `status`, `refusal` are ignored.
        """
        await is_repetition(requests, caller.account, request, idempotency_key, sent.content)
        recorded = await register.record(caller.account, sent.form)
        return _recorded(await show_to(caller, register, recorded.purchase), recorded.replayed)

    @router.post(
        "/operations/purchases/refund",
        status_code=202,
        responses={
            202: {
                "model": PurchaseShown | RefundShown,
                "description": "Recorded: its counted votes are removed. If the purchase has not been "
                "recorded yet, the answer has no details and its votes will not be cast.",
                "headers": REPLAYED,
            },
            **problems("purchase_unreadable"),
        },
    )
    async def refund_purchase_token(
        request: Request, caller: Platform, sent: Token, idempotency_key: IdempotencyKey = None
    ) -> Response:
        """Refund a purchase by its token.

        May be sent before the purchase, and repeatedly.
        """
        replayed = await is_repetition(requests, caller.account, request, idempotency_key, sent.content)
        purchase = await register.refund_token(caller.account, sent.form.purchase_token)
        return await refunded(caller, purchase, replayed)

    @router.post(
        "/operations/purchases/{purchase_key}/refund",
        status_code=202,
        responses={
            202: {
                "model": PurchaseShown,
                "description": "Recorded: its counted votes are removed.",
                "headers": REPLAYED,
            },
            **problems("not_found", "purchase_unreadable"),
        },
    )
    async def refund_purchase(
        request: Request, caller: Platform, purchase_key: str, idempotency_key: IdempotencyKey = None
    ) -> Response:
        """Refund a purchase by its key.

        May be sent repeatedly.
        """
        replayed = await is_repetition(requests, caller.account, request, idempotency_key)
        return await refunded(caller, await register.refund(caller.account, purchase_key), replayed)

    async def page(caller: ApiKey, limit: int, next: str | None, read: Reader) -> ListPage[PurchaseShown]:
        """Return a page of what `read` returns, without purchases that cannot be read."""
        cipher, whole_token = await register.ciphers.of(caller.account), "purchases:write" in caller.permissions
        found = await read(_place(next), limit + 1)
        listed, has_more = found[:limit], len(found) > limit
        shown, _ = show_all([each.purchase for each in listed], cipher, whole_token=whole_token)
        return ListPage(data=shown, has_more=has_more, next=_token(listed[-1].place) if has_more else None)

    @router.get("/operations/purchases/refunds", response_description="Newest refusal first.")
    async def list_refunds(caller: Developer, limit: Limit = LISTED, next: Next = None) -> ListPage[PurchaseShown]:
        """List purchases to refund.

        These are purchases whose votes could not be cast (`refused`), or were cast and do not count any more
        (`uncounted`), with the reason in `refusal`. A refund removes them; an uncounted one also leaves the list
        when its participant is approved again.
        """
        return await page(caller, limit, next, partial(register.views.refused, caller.account))

    @router.get("/api/users/{user_id:path}/purchases", response_description="Newest first.")
    async def list_user_purchases(
        caller: Developer, user_id: UserId, limit: Limit = LISTED, next: Next = None
    ) -> ListPage[PurchaseShown]:
        """List a user's purchases.

        The purchase_token is whole only for keys with purchases:write.
        """
        user = (await register.ciphers.of(caller.account)).user(user_id)
        return await page(caller, limit, next, partial(register.views.of_user, caller.account, user))

    @router.get(
        "/api/purchases/{purchase_key}",
        response_description="The purchase.",
        responses=problems("not_found", "purchase_unreadable"),
    )
    async def read_purchase(caller: Developer, purchase_key: str) -> PurchaseShown:
        """Read a purchase.

        The purchase_token is whole only for keys with purchases:write.
        """
        purchase = await register.get(caller.account, purchase_key)
        if purchase is None or purchase.recorded is None:
            raise NotFound(f"Purchase {purchase_key} not found.")
        return await show_to(caller, register, purchase)

    return router


async def show_to(caller: ApiKey, register: PurchaseService, purchase: Purchase) -> PurchaseShown:
    """Return a purchase as `caller` may see it. Raises `PurchaseUnreadable`."""
    cipher = await register.ciphers.of(caller.account)
    try:
        return show(purchase, cipher, whole_token="purchases:write" in caller.permissions)
    except SecretLost as error:
        register.ciphers.forget(caller.account)
        report(Unreadable(purchase.account, purchase.key, str(error)))
        raise PurchaseUnreadable(purchase.key) from None


def _recorded(shown: BaseModel, replayed: bool) -> Response:
    headers = {"Idempotent-Replayed": "true"} if replayed else {}
    return Response(shown.model_dump_json(), 202, headers, "application/json")


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
        raise no_token()
    return PurchasePlace(int(match[1]), match[2])
