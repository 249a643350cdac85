"""Routes of the settings of the caller's account."""

from typing import Annotated, ClassVar, Final

from fastapi import APIRouter, Depends
from pydantic import Field
from starlette.responses import Response

from libs.catalogue.records import RecordService
from libs.catalogue.resource_definition import Document
from libs.catalogue.resource_table import ACCOUNT_KEY, ACCOUNTS
from libs.catalogue.schemas.app import AccountSettings, Looks
from libs.contracts.catalogue_events import Stored
from libs.tally.errors import NotFound
from libs.web.documents.openapi import UNCHANGED
from libs.web.door.auth import ApiKey, Authenticator
from libs.web.door.typed_routes import IfMatch, IfNoneMatch, JsonBody, Permitted, Sent, TypedRoute
from libs.web.responses import etag, json_response
from services.catalogue.openapi import answer
from services.catalogue.routes import fits

PATH: Final = "/account"


class LooksShown(Looks):
    """The looks of the account's pages; null: the pages' own."""


class AccountShown(AccountSettings):
    """The settings of the caller's account."""

    ignored: ClassVar[frozenset[str]] = frozenset()

    account: str = Field(description="The account; in the legacy API the brand's id.")
    brand_name: str = Field(description="Name of the account's brand; by default the account's own name.")
    looks: LooksShown = Field(default_factory=LooksShown, description="The looks of the account's pages.")
    created: str | None = Field(None, description="Time of the first change; null before it.")
    updated: str | None = Field(None, description="Time of the last change; null before the first.")


def account_router(auth: Authenticator, records: RecordService) -> APIRouter:
    """Build the routes."""
    router = APIRouter(tags=["account"], route_class=TypedRoute)
    Reader = Annotated[ApiKey, Depends(Permitted(auth, "content:read", "results:read"))]
    Writer = Annotated[ApiKey, Depends(Permitted(auth, "content:write"))]
    Changes = Annotated[Sent[Document], Depends(JsonBody(AccountSettings, dict))]

    @router.get(
        PATH,
        summary="Read the account's settings",
        responses={200: answer(AccountShown, "The settings."), **UNCHANGED},
    )
    async def get_account(caller: Reader, if_none_match: IfNoneMatch = None) -> Response:
        """Read the account's settings: those that were never set have their defaults.

        The permission `results:read` suffices, too: results are shown with the brand.
        """
        account = caller.account
        try:
            stored = await records.get(ACCOUNTS, account, ACCOUNT_KEY)
        except NotFound:
            return _shown(account, None)
        return _shown(account, stored, if_none_match)

    @router.patch(
        PATH,
        summary="Change the account's settings",
        responses={200: answer(AccountShown, "The changed settings.")},
    )
    async def patch_account(caller: Writer, changes: Changes, if_match: IfMatch = None) -> Response:
        """Change the account's settings.

        A JSON merge patch (RFC 7396): null resets a member. Legacy reads of production show the brand's name and
        image; the legacy test environment has no settings.
        """
        account = caller.account
        stored = await records.patch(ACCOUNTS, account, ACCOUNT_KEY, changes.form, fits(if_match), creates=True)
        return _shown(account, stored)

    return router


def _shown(account: str, stored: Stored | None, if_none_match: str | None = None) -> Response:
    shown = {} if stored is None else stored.document | stored.times
    record = AccountShown.model_validate({"brand_name": account} | shown | {"account": account})
    headers = {} if stored is None else {"ETag": etag(stored.updated)}
    return json_response(record.shown(), 200, headers, if_none_match=if_none_match)
