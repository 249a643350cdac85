"""Routes of purchases and refunds: payment platforms send them, developers read them."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Final

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel
from starlette.responses import Response

from libs.contracts.purchase_events import Purchase
from libs.purchases.encryption import SecretLost
from libs.purchases.requests import PurchaseForm, RefundForm, parse_purchase, parse_refund
from libs.purchases.responses import PurchaseShown, RefundShown, show, show_all
from libs.purchases.service import PurchaseService
from libs.purchases.unreadable import PurchaseUnreadable, report
from libs.tally.errors import NotFound
from libs.views.purchase_views import Unreadable
from libs.web.auth import ApiKey, Authenticator, require
from libs.web.common_parameters import LISTED, IdempotencyKey, Limit, Next
from libs.web.idempotency import RequestKeys, is_repetition
from libs.web.openapi import BAD_BODY, REPLAYED, answers, needs, takes
from libs.web.request_parsing import read_object
from services.ingestion.purchase_pages import PageRequest, PurchasePage, Reader, read_page

TAG: Final = "purchases"
UserId = Annotated[str, Path(description="The user's id as sent by the payment platform.")]


def purchase_router(auth: Authenticator, register: PurchaseService, requests: RequestKeys) -> APIRouter:
    """Create the router. Every write may be sent again: its token or key makes it idempotent."""
    router = APIRouter(tags=[TAG])

    async def caller(request: Request, permission: str) -> ApiKey:
        key = await auth.authenticate(request.scope)
        require(key, permission)
        return key

    async def shower(key: ApiKey) -> Callable[[Purchase], PurchaseShown]:
        """Return a function that renders purchases as `key` may see them."""
        cipher = await register.ciphers.of(key.account)

        def shown(purchase: Purchase) -> PurchaseShown:
            try:
                return show(purchase, cipher, whole_token="purchases:write" in key.permissions)
            except SecretLost as error:
                report(Unreadable(purchase.account, purchase.key, str(error)))
                raise PurchaseUnreadable(purchase.key) from None

        return shown

    async def refunded(key: ApiKey, purchase: Purchase, replayed: bool) -> Response:
        headers = {"Idempotent-Replayed": "true"} if replayed else {}
        if purchase.recorded is None:
            return _json(RefundShown(key=purchase.key, status=purchase.status), 202, headers)
        return _json((await shower(key))(purchase), 202, headers)

    async def page(request: PageRequest, key: ApiKey, read: Reader) -> Response:
        cipher, whole_token = await register.ciphers.of(key.account), "purchases:write" in key.permissions
        shown = await read_page(request, read, lambda page: show_all(page, cipher, whole_token=whole_token)[0])
        return _json(shown, 200)

    @router.post(
        "/operations/purchases",
        status_code=202,
        response_class=Response,
        responses=answers(
            *BAD_BODY,
            "idempotency_key_reused",
            "purchase_unreadable",
            "log_unavailable",
            success={
                202: {
                    "model": PurchaseShown,
                    "description": "Recorded; its votes are cast within seconds. Or its later state is recorded.",
                    "headers": REPLAYED,
                }
            },
        ),
        openapi_extra=needs("purchases:write") | takes(PurchaseForm),
    )
    async def record_purchase(request: Request, idempotency_key: IdempotencyKey = None) -> Response:
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
        key = await caller(request, "purchases:write")
        sent, given = await read_object(request)
        form = parse_purchase(given)
        await is_repetition(requests, key.account, request, idempotency_key, sent)
        recorded = await register.record(key.account, form)
        headers = {"Idempotent-Replayed": "true"} if recorded.replayed else {}
        return _json((await shower(key))(recorded.purchase), 202, headers)

    @router.post(
        "/operations/purchases/refund",
        status_code=202,
        response_class=Response,
        responses=answers(
            *BAD_BODY,
            "idempotency_key_reused",
            "purchase_unreadable",
            "log_unavailable",
            success={
                202: {
                    "model": PurchaseShown | RefundShown,
                    "description": "Recorded: its counted votes are removed. If the purchase has not been "
                    "recorded yet, the answer has no details and its votes will not be cast.",
                    "headers": REPLAYED,
                }
            },
        ),
        openapi_extra=needs("purchases:write") | takes(RefundForm),
    )
    async def refund_purchase_token(request: Request, idempotency_key: IdempotencyKey = None) -> Response:
        """Refund a purchase by its token.

        May be sent before the purchase, and repeatedly.
        """
        key = await caller(request, "purchases:write")
        sent, given = await read_object(request)
        token = parse_refund(given).purchase_token
        replayed = await is_repetition(requests, key.account, request, idempotency_key, sent)
        return await refunded(key, await register.refund_token(key.account, token), replayed)

    @router.post(
        "/operations/purchases/{purchase_key}/refund",
        status_code=202,
        response_class=Response,
        responses=answers(
            "not_found",
            "validation_failed",
            "idempotency_key_reused",
            "purchase_unreadable",
            "log_unavailable",
            success={
                202: {
                    "model": PurchaseShown,
                    "description": "Recorded: its counted votes are removed.",
                    "headers": REPLAYED,
                }
            },
        ),
        openapi_extra=needs("purchases:write"),
    )
    async def refund_purchase(
        request: Request, purchase_key: str, idempotency_key: IdempotencyKey = None
    ) -> Response:
        """Refund a purchase by its key.

        May be sent repeatedly.
        """
        key = await caller(request, "purchases:write")
        replayed = await is_repetition(requests, key.account, request, idempotency_key)
        return await refunded(key, await register.refund(key.account, purchase_key), replayed)

    @router.get(
        "/operations/purchases/refunds",
        response_class=Response,
        responses=answers(
            "validation_failed", success={200: {"model": PurchasePage, "description": "Newest refusal first."}}
        ),
        openapi_extra=needs("purchases:read"),
    )
    async def list_refunds(request: Request, limit: Limit = LISTED, next: Next = None) -> Response:
        """List purchases to refund.

        These are purchases whose votes could not be cast (`refused`), or were cast and do not count any more
        (`uncounted`), with the reason in `refusal`. A refund removes them; an uncounted one also leaves the list
        when its participant is approved again.
        """
        key = await caller(request, "purchases:read")
        return await page(PageRequest(limit, next), key, partial(register.views.refused, key.account))

    @router.get(
        "/api/users/{user_id:path}/purchases",
        response_class=Response,
        responses=answers(
            "validation_failed", success={200: {"model": PurchasePage, "description": "Newest first."}}
        ),
        openapi_extra=needs("purchases:read"),
    )
    async def list_user_purchases(
        request: Request, user_id: UserId, limit: Limit = LISTED, next: Next = None
    ) -> Response:
        """List a user's purchases.

        The purchase_token is whole only for keys with purchases:write.
        """
        key = await caller(request, "purchases:read")
        user = (await register.ciphers.of(key.account)).user(user_id)
        return await page(PageRequest(limit, next), key, partial(register.views.of_user, key.account, user))

    @router.get(
        "/api/purchases/{purchase_key}",
        response_class=Response,
        responses=answers(
            "not_found",
            "purchase_unreadable",
            success={200: {"model": PurchaseShown, "description": "The purchase."}},
        ),
        openapi_extra=needs("purchases:read"),
    )
    async def read_purchase(request: Request, purchase_key: str) -> Response:
        """Read a purchase.

        The purchase_token is whole only for keys with purchases:write.
        """
        key = await caller(request, "purchases:read")
        purchase = await register.get(key.account, purchase_key)
        if purchase is None or purchase.recorded is None:
            raise NotFound(f"Purchase {purchase_key} not found.")
        return _json((await shower(key))(purchase), 200)

    return router


def _json(model: BaseModel, status: int, headers: dict[str, str] | None = None) -> Response:
    return Response(model.model_dump_json(), status, headers, "application/json")
