"""Routes by which developers read purchases and the refund list."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Path
from pydantic import BaseModel
from starlette.responses import Response

from libs.purchases.responses import PurchaseShown, show_all
from libs.purchases.service import PurchaseService
from libs.tally.errors import NotFound
from libs.web.documents.openapi import answers
from libs.web.door.auth import ApiKey, Authenticator
from libs.web.door.common_parameters import LISTED, Limit, Next
from libs.web.door.typed_routes import Permitted, TypedRoute
from services.ingestion.purchase_pages import PageRequest, PurchasePage, Reader, read_page
from services.ingestion.purchase_routes import TAG, show_to

UserId = Annotated[str, Path(description="The user's id as sent by the payment platform.")]


def purchase_read_router(auth: Authenticator, register: PurchaseService) -> APIRouter:
    """Build the routes. The purchase_token is whole only for keys with purchases:write."""
    router = APIRouter(tags=[TAG], route_class=TypedRoute)
    Caller = Annotated[ApiKey, Depends(Permitted(auth, "purchases:read"))]

    async def page(request: PageRequest, caller: ApiKey, read: Reader) -> Response:
        cipher, whole_token = await register.ciphers.of(caller.account), "purchases:write" in caller.permissions
        return _json(
            await read_page(request, read, lambda page: show_all(page, cipher, whole_token=whole_token)[0])
        )

    @router.get(
        "/operations/purchases/refunds",
        response_class=Response,
        responses=answers(
            "validation_failed", success={200: {"model": PurchasePage, "description": "Newest refusal first."}}
        ),
    )
    async def list_refunds(caller: Caller, limit: Limit = LISTED, next: Next = None) -> Response:
        """List purchases to refund.

        These are purchases whose votes could not be cast (`refused`), or were cast and do not count any more
        (`uncounted`), with the reason in `refusal`. A refund removes them; an uncounted one also leaves the list
        when its participant is approved again.
        """
        return await page(PageRequest(limit, next), caller, partial(register.views.refused, caller.account))

    @router.get(
        "/api/users/{user_id:path}/purchases",
        response_class=Response,
        responses=answers(
            "validation_failed", success={200: {"model": PurchasePage, "description": "Newest first."}}
        ),
    )
    async def list_user_purchases(
        caller: Caller, user_id: UserId, limit: Limit = LISTED, next: Next = None
    ) -> Response:
        """List a user's purchases.

        The purchase_token is whole only for keys with purchases:write.
        """
        user = (await register.ciphers.of(caller.account)).user(user_id)
        return await page(PageRequest(limit, next), caller, partial(register.views.of_user, caller.account, user))

    @router.get(
        "/api/purchases/{purchase_key}",
        response_class=Response,
        responses=answers(
            "not_found",
            "purchase_unreadable",
            success={200: {"model": PurchaseShown, "description": "The purchase."}},
        ),
    )
    async def read_purchase(caller: Caller, purchase_key: str) -> Response:
        """Read a purchase.

        The purchase_token is whole only for keys with purchases:write.
        """
        purchase = await register.get(caller.account, purchase_key)
        if purchase is None or purchase.recorded is None:
            raise NotFound(f"Purchase {purchase_key} not found.")
        return _json(await show_to(caller, register, purchase))

    return router


def _json(shown: BaseModel) -> Response:
    return Response(shown.model_dump_json(), media_type="application/json")
