"""Routes of an account's API keys."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import ConfigDict, Field, WithJsonSchema
from starlette.responses import Response

from libs.catalogue.api_keys import MAX_NAME, MAX_NETWORKS, PERMISSIONS
from libs.catalogue.schemas.base import Members, Timestamp, checked
from libs.contracts.catalogue_events import KeyRow, KeyRules
from libs.contracts.validation import Problem, ValidationFailed
from libs.tally.time_conversion import microseconds, timestamp
from libs.web.auth import ApiKey, Authenticator
from libs.web.common_parameters import LISTED, MOST_LISTED, IdempotencyKey, Limit, Next
from libs.web.json_responses import NO_STORE, json_response
from libs.web.openapi import BAD_BODY, LOCATION, REPLAYED, answers
from libs.web.request_parsing import integer_parameter
from libs.web.typed_routes import JsonBody, Permitted, Sent, TypedRoute
from services.catalogue.key_models import CreatedKey, KeyPage, KeyRecord
from services.catalogue.keys import AccountKeys
from services.catalogue.openapi import BEARER
from services.catalogue.write_requests import write_request

TOKEN: Final = re.compile(r"([0-9]{1,17})\.([0-9a-f]{16})")
KeyId = Annotated[str, Path(description="Id of the key, the part of it between the two `_`.")]
DESCENDANTS: Final = ("revoke", "keep")
Descendants = Annotated[
    str,
    Query(description="Whether the keys that descend from it are revoked, too, or kept."),
    WithJsonSchema({"type": "string", "enum": list(DESCENDANTS)}),
]


class NewKey(Members):
    """A key to create. Rules that are left out are those of the calling key; wider ones are refused."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "Voting backend",
                    "permissions": ["content:read", "votes:write"],
                    "expires": "2027-05-01T00:00:00Z",
                    "networks": ["192.0.2.0/24"],
                    "rate": 50,
                }
            ]
        }
    )

    name: Annotated[str, Field(max_length=MAX_NAME)] = Field("", description="A label.")
    permissions: list[Annotated[str, Field(json_schema_extra={"enum": list(PERMISSIONS)})]] = Field(
        min_length=1, description="Permissions, of those of the calling key."
    )
    expires: Timestamp | None = Field(None, description="The key is refused from then on.")
    networks: Annotated[list[str], Field(max_length=MAX_NETWORKS)] = Field(
        [], description="Networks that may use the key, such as 192.0.2.0/24; none: all."
    )
    rate: Annotated[int, Field(ge=0, le=1_000_000)] | None = Field(
        None, description="Requests per second; 0: no limit; unset: the deployment's limit."
    )


def key_router(auth: Authenticator, keys: AccountKeys) -> APIRouter:
    """Build the routes; all need the permission keys:manage."""
    router = APIRouter(prefix="/keys", tags=["keys"], dependencies=[Depends(BEARER)], route_class=TypedRoute)
    Caller = Annotated[ApiKey, Depends(Permitted(auth, "keys:manage"))]
    Form = Annotated[Sent[NewKey], Depends(JsonBody(NewKey, partial(checked, NewKey)))]

    @router.get(
        "",
        response_model=KeyPage,
        responses=answers("validation_failed", success={}),
    )
    async def list_keys(caller: Caller, limit: Limit = LISTED, next: Next = None) -> Response:
        """List the account's API keys, without their texts.

        Newest first. Only keys of the current API's environment are listed.
        """
        most = integer_parameter(limit, "limit", 1, MOST_LISTED)
        rows = _after(next, await keys.all(caller.account))
        page, has_more = rows[:most], len(rows) > most
        used = await keys.last_used(page)
        data = [_shown(row, used.get(row.key_id)) for row in page]
        token = _token(page[-1]) if has_more else None
        return json_response({"data": data, "has_more": has_more, "next": token}, 200, NO_STORE)

    @router.post(
        "",
        status_code=201,
        response_model=CreatedKey,
        responses=answers(
            *BAD_BODY,
            "idempotency_key_reused",
            "log_unavailable",
            success={
                201: {"description": "Created; `api_key` is not shown again.", "headers": LOCATION | REPLAYED}
            },
        ),
    )
    async def create_key(
        request: Request, caller: Caller, sent: Form, idempotency_key: IdempotencyKey = None
    ) -> Response:
        """Create an API key of the account.

        The text of the key is in this response only; it is stored nowhere. So a repeated request is answered
        without it. A key can hand out only what it has itself: a permission that it lacks is refused with 403, a
        longer time, other networks or a higher rate with 422. Requests of the new key also count towards the rate
        of the calling key: all keys that descend from it share its rate. A key descends from at most 4 others.
        """
        form = sent.form
        expires = None if form.expires is None else microseconds(form.expires)
        rules = KeyRules(form.name, expires, tuple(form.networks), form.rate)
        write = write_request(caller.account, request, idempotency_key, sent.content)
        made = await keys.create(caller, form.permissions, rules, write)
        shown = _shown(made.row, None) | {"api_key": made.api_key or None}
        headers = NO_STORE | {"Location": f"/keys/{made.row.key_id}"}
        return json_response(shown, 201, headers, replayed=not made.api_key)

    @router.get(
        "/{key_id}",
        response_model=KeyRecord,
        responses=answers("not_found", success={}),
    )
    async def get_key(caller: Caller, key_id: KeyId) -> Response:
        """Read an API key of the account, without its text."""
        row = await keys.get(caller.account, key_id)
        return json_response(_shown(row, (await keys.last_used([row])).get(key_id)), 200, NO_STORE)

    @router.delete(
        "/{key_id}",
        status_code=204,
        response_class=Response,
        responses=answers(
            "not_found",
            "validation_failed",
            "log_unavailable",
            success={204: {"description": "Revoked: refused within a second."}},
        ),
    )
    async def delete_key(caller: Caller, key_id: KeyId, descendants: Descendants = "revoke") -> Response:
        """Revoke an API key of the account, at once and for good.

        All keys that descend from it (`parent`) end with it, unless `descendants` is `keep`: kept ones go on to
        share its rate. Sessions of revoked keys end, too. A key can revoke itself, its descendants, and keys that
        may do no more than it: one with a permission that it lacks, or with a longer time, other networks or a
        higher rate, is refused with 403.
        """
        if descendants not in DESCENDANTS:
            raise ValidationFailed([Problem("", f"descendants: one of {', '.join(DESCENDANTS)}", "descendants")])
        await keys.revoke(caller, key_id, keeps_descendants=descendants == "keep")
        return Response(status_code=204)

    return router


def _shown(row: KeyRow, last_used: int | None) -> dict[str, Any]:
    rules = row.rules
    return {
        "key_id": row.key_id,
        "name": rules.name,
        "permissions": row.permissions,
        "expires": timestamp(rules.expires),
        "networks": rules.networks,
        "rate": rules.rate,
        "parent": row.parent,
        "created": timestamp(row.issued),
        "last_used": timestamp(last_used),
    }


def _token(row: KeyRow) -> str:
    return f"{row.issued}.{row.key_id}"


def _after(token: str | None, rows: Sequence[KeyRow]) -> Sequence[KeyRow]:
    """Return the keys after the place of a token, which may have been revoked. Raises `ValidationFailed`."""
    if token is None:
        return rows
    match = TOKEN.fullmatch(token)
    if match is None:
        raise ValidationFailed([Problem("", "next is not a token of this list")])
    place = -int(match[1]), match[2]
    return [row for row in rows if (-row.issued, row.key_id) > place]
