"""Routes of the settings of the caller's account."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field
from starlette.responses import Response

from libs.catalogue.records import RecordService
from libs.catalogue.resource_definition import Document
from libs.catalogue.resource_table import ACCOUNT_KEY, ACCOUNTS
from libs.catalogue.schemas.app import AccountSettings
from libs.contracts.catalogue_events import Stored
from libs.tally.errors import NotFound
from libs.tally.time_conversion import timestamp
from libs.web.documents.openapi import BAD_BODY, ETAG, UNCHANGED, Schema, answers
from libs.web.door.auth import ApiKey, Authenticator
from libs.web.door.common_parameters import IfMatch, IfNoneMatch
from libs.web.door.typed_routes import JsonBody, Permitted, Sent, TypedRoute
from libs.web.responses import etag, json_response, not_modified
from services.catalogue.openapi import BEARER
from services.catalogue.routes import fits

PATH: Final = "/account"


class LooksShown(BaseModel):
    """The looks of the account's pages; null: the pages' own."""

    logo_key: str | None = Field(description="Key of an image: the logo.")
    primary_color: str | None = Field(description="Colour of buttons and links.")
    secondary_color: str | None = Field(description="Secondary colour.")
    background_color: str | None = Field(description="Colour of the pages.")
    text_color: str | None = Field(description="Colour of the text.")


class AccountShown(BaseModel):
    """The settings of the caller's account."""

    account: str = Field(description="The account; in the legacy API the brand's id.")
    brand_name: str = Field(description="Name of the account's brand; by default the account's own name.")
    image_key: str | None = Field(description="Key of an image: the brand's.")
    looks: LooksShown = Field(description="The looks of the account's pages.")
    created: str | None = Field(description="Time of the first change; null before it.")
    updated: str | None = Field(description="Time of the last change; null before the first.")


def account_router(auth: Authenticator, records: RecordService) -> APIRouter:
    """Build the routes."""
    router = APIRouter(tags=["account"], dependencies=[Depends(BEARER)], route_class=TypedRoute)
    Reader = Annotated[ApiKey, Depends(Permitted(auth, "content:read", "results:read"))]
    Writer = Annotated[ApiKey, Depends(Permitted(auth, "content:write"))]
    Changes = Annotated[Sent[Document], Depends(JsonBody(AccountSettings, dict))]

    @router.get(
        PATH,
        response_class=Response,
        responses=answers(success={200: _answer("The settings."), **UNCHANGED}),
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
        if not_modified(if_none_match, etag(stored.updated)):
            return Response(status_code=304, headers={"ETag": etag(stored.updated)})
        return _shown(account, stored)

    @router.patch(
        PATH,
        response_class=Response,
        responses=answers(
            *BAD_BODY, "version_conflict", "log_unavailable", success={200: _answer("The changed settings.")}
        ),
    )
    async def patch_account(caller: Writer, changes: Changes, if_match: IfMatch = None) -> Response:
        """Change the account's settings.

        A JSON merge patch (RFC 7396): null resets a member. Legacy reads of production show the brand's name and
        image; the legacy test environment has no settings.
        """
        account = caller.account
        return _shown(account, await records.merge(ACCOUNTS, account, ACCOUNT_KEY, changes.form, fits(if_match)))

    return router


def _shown(account: str, stored: Stored | None) -> Response:
    settings = AccountSettings.model_validate({} if stored is None else stored.document)
    shown = AccountShown(
        account=account,
        brand_name=settings.brand_name or account,
        image_key=settings.image_key,
        looks=LooksShown(**settings.looks.model_dump()),
        created=None if stored is None else timestamp(stored.created),
        updated=None if stored is None else timestamp(stored.updated),
    )
    headers = {} if stored is None else {"ETag": etag(stored.updated)}
    return json_response(shown.model_dump(mode="json"), 200, headers)


def _answer(description: str) -> Schema:
    answer: dict[str, Any] = {"model": AccountShown, "description": description, "headers": ETAG}
    return answer
