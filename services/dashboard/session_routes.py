"""Log-in and log-out of browsers (`libs/web/door/sessions.py`)."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.responses import Response

from libs.contracts.catalogue_events import ApiKey
from libs.contracts.limits import LOG_IN_BODY
from libs.tally.contest import MILLION
from libs.views.valkey.request_counters import RequestKeys
from libs.web.documents.openapi import needs, problems
from libs.web.door.auth import (
    Authenticator,
    KeyFinder,
    bearer_token,
    cookies_of,
    from_own_origin,
    header,
    headers_of,
)
from libs.web.door.sessions import COOKIE, SECURE_COOKIE, SESSION_S, TICKET_S, Sessions
from libs.web.door.typed_routes import JsonBody, Sent, TypedRoute
from libs.web.errors import Forbidden, Unauthorized
from libs.web.responses import NO_STORE, json_response

NEEDED: Final = ("results:read", "content:write", "operations", "keys:manage")
"""Permissions with a page; any of them allows a session."""
PATH: Final = "/dashboard/session"
MAX_CREDENTIAL: Final = 1_000


class LogIn(BaseModel):
    """Credentials: an API key or a ticket."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"api_key": "tk_..."}],
            "oneOf": [{"required": ["api_key"]}, {"required": ["ticket"]}],
        },
    )

    api_key: str = Field(
        "",
        max_length=MAX_CREDENTIAL,
        description="An API key with `results:read`, `content:write`, `operations` or `keys:manage`.",
    )
    ticket: str = Field(
        "", max_length=MAX_CREDENTIAL, description="A ticket from `POST /dashboard/tickets`; valid once."
    )

    @model_validator(mode="after")
    def _one(self) -> "LogIn":
        if len(self.model_fields_set) != 1:
            raise ValueError("send either api_key or ticket")
        return self


class Session(BaseModel):
    """The logged-in account and API key."""

    account: str = Field(description="The account whose records may be read.")
    key_id: str = Field(description="Id of the API key that opened the session.")
    permissions: list[str] = Field(description="Permissions of the API key; revoking the key ends the session.")
    expires: datetime | None = Field(description="End of the session or of the key; null without one.")


class IssuedTicket(BaseModel):
    """A ticket that opens one session in place of an API key."""

    ticket: str = Field(description="The ticket, for `POST /dashboard/session`.")
    expires: datetime = Field(description="Time of expiry.")


def session_router(auth: Authenticator, keys: KeyFinder, sessions: Sessions, used: RequestKeys) -> APIRouter:
    """Create the router; `used` stores used tickets until they have expired."""
    router = APIRouter(tags=["dashboard"], route_class=TypedRoute)
    Credentials = Annotated[Sent[LogIn], Depends(JsonBody(LogIn, LOG_IN_BODY))]

    async def holder(request: Request, given: LogIn) -> ApiKey:
        """Return the key to open a session for. Raises `Unauthorized`."""
        if given.api_key:
            return await auth.by_token(request.scope, given.api_key)
        ticket = await sessions.ticket(given.ticket)
        key = None if ticket is None else await keys.find_id(ticket.key_id)
        # the key is read first: while the views are unavailable, the ticket stays unused
        if ticket is None or await used.claim(f"ticket:{ticket.nonce}", ticket.key_id) is not None:
            raise Unauthorized(f"This link has been used, or is older than {TICKET_S} s. Log in with an API key.")
        if key is None:
            raise Unauthorized("The API key of this link has been revoked.")
        return await auth.admit(request.scope, key)

    @router.post(
        PATH,
        response_model=Session,
        responses=problems("unauthorized", "forbidden", "views_unavailable"),
        dependencies=[Depends(own_origin)],
    )
    async def log_in(request: Request, sent: Credentials) -> Response:
        """Begin a session.

        It is a cookie for the key, valid for 12 hours. It replaces the key in reads, and in writes whose `Origin`
        is this host.
        """
        key = require_page(await holder(request, sent.form))
        answer = _shown(key, datetime.now(UTC) + timedelta(seconds=SESSION_S))
        over_tls = is_https(request)
        answer.set_cookie(
            SECURE_COOKIE if over_tls else COOKIE,
            await sessions.issue(key.key_id),
            max_age=SESSION_S,
            httponly=True,
            samesite="strict",
            secure=over_tls,
        )
        return answer

    @router.get(PATH, response_model=Session, responses=problems("unauthorized", "forbidden", "views_unavailable"))
    async def read_session(request: Request) -> Response:
        """Read the logged-in account, by session or Bearer key."""
        key = require_page(await auth.authenticate(request.scope))
        cookies = cookies_of(headers_of(request.scope))
        return _shown(key, await sessions.expires_at(cookies, request.url.scheme == "https"))

    @router.delete(
        PATH, status_code=204, response_class=Response, responses=problems("unauthorized", "views_unavailable")
    )
    async def log_out(request: Request) -> Response:
        """End this browser's session.

        A copied cookie stays valid until it expires, at most 12 hours after the log-in, or the key is revoked.
        """
        headers = headers_of(request.scope)
        if header(headers, b"cookie") is not None and not from_own_origin(headers):
            raise Unauthorized("Log out from a page of this origin.")
        answer = Response(status_code=204, headers=NO_STORE)
        for name, secure in ((COOKIE, is_https(request)), (SECURE_COOKIE, True)):
            answer.delete_cookie(name, httponly=True, samesite="strict", secure=secure)
        return answer

    @router.post(
        "/dashboard/tickets",
        summary="Create a ticket for logging in",
        status_code=201,
        response_model=IssuedTicket,
        openapi_extra=needs("results:read"),
    )
    async def make_ticket(request: Request) -> Response:
        """Create a ticket that opens one session of this key within a minute.

        The permissions `content:write`, `operations` and `keys:manage` suffice, too. A session cannot create one:
        sessions would never end. A browser opened at `/dashboard#ticket=<ticket>` logs in with it; browsers send
        no server the part after `#`.
        """
        if bearer_token(headers_of(request.scope)) is None:
            raise Unauthorized("Send the API key as the header Authorization: Bearer <key>.")
        key = require_page(await auth.authenticate(request.scope))
        expires = datetime.now(UTC) + timedelta(seconds=TICKET_S)
        ticket = {"ticket": await sessions.issue_ticket(key.key_id), "expires": f"{expires:%Y-%m-%dT%H:%M:%SZ}"}
        return json_response(ticket, 201, NO_STORE)

    return router


async def own_origin(request: Request) -> None:
    """Raise `Unauthorized` for a log-in from a page of another origin."""
    headers = headers_of(request.scope)
    if header(headers, b"origin") is not None and not from_own_origin(headers):
        raise Unauthorized("Log in from a page of this origin.")


def require_page(key: ApiKey) -> ApiKey:
    """Return the key. Raises `Forbidden` if it may see no page."""
    if not any(permission in key.permissions for permission in NEEDED):
        raise Forbidden(NEEDED[0])
    return key


def is_https(request: Request) -> bool:
    """Return whether the browser uses TLS, by its `Origin` if a proxy terminates it."""
    return request.url.scheme == "https" or request.headers.get("origin", "").startswith("https:")


def _shown(key: ApiKey, session_ends: datetime | None) -> Response:
    """Build the session's record; a key may end before its session."""
    key_ends = None if key.rules.expires is None else datetime.fromtimestamp(key.rules.expires / MILLION, UTC)
    ends = min(filter(None, (session_ends, key_ends)), default=None)
    expires = None if ends is None else f"{ends:%Y-%m-%dT%H:%M:%SZ}"
    permissions = sorted(key.permissions)
    record = {"account": key.account, "key_id": key.key_id, "permissions": permissions, "expires": expires}
    return json_response(record, 200, NO_STORE)
