"""Routes by which payment platforms record purchases and refunds."""

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel
from starlette.responses import Response

from libs.contracts.purchase_events import Purchase
from libs.purchases.encryption import SecretLost
from libs.purchases.requests import PurchaseForm, RefundForm, parse_purchase, parse_refund
from libs.purchases.responses import PurchaseShown, PurchaseUnreadable, RefundShown, report, show
from libs.purchases.service import PurchaseService
from libs.views.purchases.purchase_views import Unreadable
from libs.web.documents.openapi import BAD_BODY, REPLAYED, answers
from libs.web.door.auth import ApiKey, Authenticator
from libs.web.door.common_parameters import IdempotencyKey
from libs.web.door.request_parsing import RequestKeyStore, is_repetition
from libs.web.door.typed_routes import JsonBody, Permitted, Sent, TypedRoute

TAG: Final = "purchases"


def purchase_router(auth: Authenticator, register: PurchaseService, requests: RequestKeyStore) -> APIRouter:
    """Build the routes. Every write may be sent again: its token or key makes it idempotent."""
    router = APIRouter(tags=[TAG], route_class=TypedRoute)
    Platform = Annotated[ApiKey, Depends(Permitted(auth, "purchases:write"))]
    Report = Annotated[Sent[PurchaseForm], Depends(JsonBody(PurchaseForm, parse_purchase))]
    Token = Annotated[Sent[RefundForm], Depends(JsonBody(RefundForm, parse_refund))]

    async def refunded(caller: ApiKey, purchase: Purchase, replayed: bool) -> Response:
        if purchase.recorded is None:
            return _recorded(RefundShown(key=purchase.key, status=purchase.status), replayed)
        return _recorded(await show_to(caller, register, purchase), replayed)

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
    )
    async def refund_purchase(
        request: Request, caller: Platform, purchase_key: str, idempotency_key: IdempotencyKey = None
    ) -> Response:
        """Refund a purchase by its key.

        May be sent repeatedly.
        """
        replayed = await is_repetition(requests, caller.account, request, idempotency_key)
        return await refunded(caller, await register.refund(caller.account, purchase_key), replayed)

    return router


async def show_to(caller: ApiKey, register: PurchaseService, purchase: Purchase) -> PurchaseShown:
    """Return a purchase as `caller` may see it. Raises `PurchaseUnreadable`."""
    cipher = await register.ciphers.of(caller.account)
    try:
        return show(purchase, cipher, whole_token="purchases:write" in caller.permissions)
    except SecretLost as error:
        report(Unreadable(purchase.account, purchase.key, str(error)))
        raise PurchaseUnreadable(purchase.key) from None


def _recorded(shown: BaseModel, replayed: bool) -> Response:
    headers = {"Idempotent-Replayed": "true"} if replayed else {}
    return Response(shown.model_dump_json(), 202, headers, "application/json")
