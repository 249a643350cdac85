"""The caller's account: its settings, and its API keys, managed with keys that have `keys:manage`.

A new key has at most the calling key's permissions, validity, networks and rate, and its requests count towards
the calling key's rate, too. A key revokes only what it could have made. A revoked key's descendants end with it:
whoever held it may have made them. Where a maker is replaced, not distrusted, they can be kept.
"""

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Final, Literal

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from libs.catalogue.api_examples import CHANGED, EXAMPLES
from libs.catalogue.api_keys import (
    MAX_NAME,
    MAX_NETWORKS,
    PERMISSIONS,
    checked_key,
    issue_key,
    keys_of,
    revoke_key,
    shown_key,
)
from libs.catalogue.commands import CommandWriter, WriteRequest
from libs.catalogue.errors import UnknownKey
from libs.catalogue.records import RecordService
from libs.catalogue.resource_table import ACCOUNT_KEY, ACCOUNTS
from libs.catalogue.schemas.app import AccountSettings, Looks
from libs.catalogue.schemas.base import Document, Members, Timestamp
from libs.contracts.catalogue_events import ApiKey, KeyAncestor, KeyRules, Stored
from libs.contracts.limits import COMMAND_BODY
from libs.contracts.validation import Problem, ValidationFailed, no_token
from libs.tally.errors import NotFound, TallyError
from libs.tally.time_conversion import microseconds, timestamp
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.valkey.request_counters import KeyUses
from libs.web.documents.openapi import LOCATION, REPLAYED, UNCHANGED, problems
from libs.web.door.auth import Authenticator, networks_of
from libs.web.door.typed_routes import (
    LISTED,
    TIME,
    IdempotencyKey,
    IfMatch,
    IfNoneMatch,
    JsonBody,
    Limit,
    ListPage,
    MergePatch,
    Next,
    Permitted,
    Sent,
    TypedRoute,
)
from libs.web.errors import Forbidden, Unauthorized
from libs.web.responses import NO_STORE, etag, json_response
from services.catalogue.openapi import answer
from services.catalogue.routes import fits, write_request


class KeyRecord(BaseModel):
    """An API key without its text."""

    key_id: str = Field(description="The key's id, a part of its text.", examples=["5f0c9a4e8b7d6c21"])
    name: str = Field(description="A label.")
    permissions: list[str] = Field(description="What the key may do.", examples=[["content:read", "votes:write"]])
    expires: str | None = Field(description="The key is refused from then on.", json_schema_extra=TIME)
    networks: list[str] = Field(
        description="Networks that may use the key; none: all.", examples=[["192.0.2.0/24"]]
    )
    rate: int | None = Field(description="Requests per second; 0: no limit; null: the deployment's limit.")
    parent: str | None = Field(
        description="Id of the key that made it, which may be revoked; null: an operator made it. Requests count "
        "towards the rate of the parent, too."
    )
    created: str = Field(description="Time of creation.", json_schema_extra=TIME)
    last_used: str | None = Field(
        description="Minute of the last use, up to half a minute late; null: never, or not known.",
        json_schema_extra=TIME,
    )


class CreatedKey(KeyRecord):
    """A new API key."""

    api_key: str | None = Field(
        description="The key's text, in the first response only; null in the response to a repeated request.",
        examples=["tk_5f0c9a4e8b7d6c21_..."],
    )


MAX_KEYS: Final = 1_000
"""Keys of one account: every process keeps all keys in memory."""
MAX_ANCESTORS: Final = 4
"""Keys that a key may descend from: its requests count towards the rate of each."""


class StrongerKey(TallyError):
    """The key may do more than the one that would revoke it."""

    code = "forbidden"


@dataclass(frozen=True, slots=True)
class Made:
    """A key; its text is "" in the answer to a repeated request."""

    row: ApiKey
    api_key: str


class AccountKeys:
    """The keys of production's accounts. `rate` is the limit of keys without their own, 0: none."""

    def __init__(self, writer: CommandWriter, views: CatalogueViews, uses: KeyUses, rate: int) -> None:
        self._writer = writer
        self._views = views
        self._uses = uses
        self._rate = rate

    async def all(self, account: str) -> list[ApiKey]:
        """Return the account's keys, newest first."""
        return await keys_of(self._views, account)

    async def last_used(self, rows: Sequence[ApiKey]) -> dict[str, int]:
        """Return the minute of the keys' last use (us), of those that were used."""
        return await self._uses.last_of([row.key_id for row in rows])

    async def get(self, account: str, key_id: str) -> ApiKey:
        """Return a key. Raises `UnknownKey`, also for one of another account."""
        for row in await self.all(account):
            if row.key_id == key_id:
                return row
        raise UnknownKey(f"There is no key {key_id}.")

    async def create(
        self, caller: ApiKey, permissions: Sequence[str], rules: KeyRules, request: WriteRequest
    ) -> Made:
        """Issue a key; rules that are left out are those of the calling key.

        Raises `Forbidden` for a permission that the caller lacks, `Unauthorized` if it has been revoked, and as
        `issue_key`.
        """
        rules = inherited(caller, rules)
        rules, granted = checked_key(permissions, rules, self._writer.now(), self._excesses(caller, rules))
        lacking = next((each for each in granted if each not in caller.permissions), None)
        if lacking is not None:
            raise Forbidden(lacking)
        if len(caller.ancestors) >= MAX_ANCESTORS:
            raise ValidationFailed([Problem("", f"a key descends from at most {MAX_ANCESTORS} others")])
        existing = await self.all(caller.account)
        if len(existing) >= MAX_KEYS and _of_request(existing, request) is None:
            raise ValidationFailed([Problem("", f"an account has at most {MAX_KEYS} keys: delete one first")])
        above = (
            *(KeyAncestor(key.key_id, key.rate) for key in caller.ancestors),
            KeyAncestor(caller.key_id, caller.rules.rate),
        )
        try:
            issued = await issue_key(self._writer, caller.account, granted, rules, request, above)
        except UnknownKey as error:
            raise Unauthorized("This API key has been revoked.") from error
        row = _of_request(await self.all(caller.account), request)
        if row is None:
            raise UnknownKey("The key that this request made has been revoked.")
        return Made(row, issued.api_key if row.key_id == issued.key_id else "")

    async def revoke(self, caller: ApiKey, key_id: str, keeps_descendants: bool) -> None:
        """Revoke a key of the caller's account at once, and its descendants unless they are kept.

        Raises `UnknownKey`, `Forbidden` and `StrongerKey` if it may do more than the caller, and the errors of
        `CommandWriter.record`.
        """
        row, existing = await self.get(caller.account, key_id), await self.all(caller.account)
        if caller.key_id not in (key_id, *(ancestor.key_id for ancestor in row.ancestors)):
            self._check_weaker(row, caller)
        await revoke_key(self._writer, row, keeps_descendants)
        for other in existing:
            if other.key_id == key_id or (not keeps_descendants and other.descends_from(key_id)):
                await self._uses.forget(other.key_id)

    def _check_weaker(self, row: ApiKey, caller: ApiKey) -> None:
        """Raise `Forbidden` or `StrongerKey` for a key that the caller could not have made."""
        lacking = next((each for each in row.permissions if each not in caller.permissions), None)
        if lacking is not None:
            raise Forbidden(lacking)
        if self._excesses(caller, row.rules):
            raise StrongerKey("A key can revoke only keys with at most its own validity, networks and rate.")

    def _excesses(self, caller: ApiKey, rules: KeyRules) -> list[Problem]:
        """Return a problem for each rule that is wider than the caller's."""
        own, problems = caller.rules, list[Problem]()
        if own.expires is not None and (rules.expires is None or rules.expires > own.expires):
            problems.append(Problem("/expires", f"must not be after {timestamp(own.expires)}, as of this key"))
        if own.networks and not (
            rules.networks and all(_is_within(network, caller) for network in rules.networks)
        ):
            within = ", ".join(own.networks)
            problems.append(Problem("/networks", f"must be within the networks of this key: {within}"))
        own_rate, rate = (self._rate if each is None else each for each in (own.rate, rules.rate))
        if own_rate and (rate == 0 or rate > own_rate):
            problems.append(Problem("/rate", f"must be from 1 to {own_rate}, the rate of this key"))
        return problems


def inherited(caller: ApiKey, rules: KeyRules) -> KeyRules:
    """Return the rules with those of the caller in place of the ones that are left out."""
    return replace(
        rules,
        expires=caller.rules.expires if rules.expires is None else rules.expires,
        networks=rules.networks or caller.rules.networks,
        rate=caller.rules.rate if rules.rate is None else rules.rate,
    )


def _of_request(rows: Sequence[ApiKey], request: WriteRequest) -> ApiKey | None:
    """Return the key that this request, or an earlier one that it repeats, has made."""
    return next((row for row in rows if row.command_id == request.command_id), None)


def _is_within(text: str, caller: ApiKey) -> bool:
    """Return whether a network is within one of the caller's; an invalid one is reported elsewhere."""
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        return True
    return any(
        network.version == own.version and network.subnet_of(own)  # type: ignore[arg-type]
        for own in networks_of(caller)
    )


TOKEN: Final = re.compile(r"([0-9]{1,17})\.([0-9a-f]{16})")
KeyId = Annotated[str, Path(description="Id of the key, the part of it between the two `_`.")]
Descendants = Annotated[
    Literal["revoke", "keep"],
    Query(description="Whether the keys that descend from it are revoked, too, or kept."),
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
        min_length=1, max_length=len(PERMISSIONS), description="Permissions, of those of the calling key."
    )
    expires: Timestamp | None = Field(None, description="The key is refused from then on.")
    networks: Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=MAX_NETWORKS)] = Field(
        [], description="Networks that may use the key, such as 192.0.2.0/24; none: all."
    )
    rate: Annotated[int, Field(ge=0, le=1_000_000)] | None = Field(
        None, description="Requests per second; 0: no limit; unset: the deployment's limit."
    )


def key_router(auth: Authenticator, keys: AccountKeys) -> APIRouter:
    """Build the routes; all need the permission keys:manage."""
    router = APIRouter(prefix="/keys", tags=["keys"], route_class=TypedRoute)
    Caller = Annotated[ApiKey, Depends(Permitted(auth, "keys:manage"))]
    Form = Annotated[Sent[NewKey], Depends(JsonBody(NewKey, COMMAND_BODY))]

    @router.get("")
    async def list_keys(
        response: Response, caller: Caller, limit: Limit = LISTED, next: Next = None
    ) -> ListPage[KeyRecord]:
        """List the account's API keys, without their texts.

        Newest first. Only keys of the current API's environment are listed.
        """
        rows = _after(next, await keys.all(caller.account))
        page, has_more = rows[:limit], len(rows) > limit
        used = await keys.last_used(page)
        response.headers.update(NO_STORE)
        data = [KeyRecord(**shown_key(row, used.get(row.key_id))) for row in page]
        return ListPage(data=data, has_more=has_more, next=_token(page[-1]) if has_more else None)

    @router.post(
        "",
        status_code=201,
        response_model=CreatedKey,
        response_description="Created; `api_key` is not shown again.",
        responses={201: {"headers": LOCATION | REPLAYED}},
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
        shown = shown_key(made.row, None) | {"api_key": made.api_key or None}
        headers = NO_STORE | {"Location": f"/keys/{made.row.key_id}"}
        return json_response(shown, 201, headers, replayed=not made.api_key)

    @router.get("/{key_id}", response_model=KeyRecord, responses=problems("not_found"))
    async def get_key(caller: Caller, key_id: KeyId) -> Response:
        """Read an API key of the account, without its text."""
        row = await keys.get(caller.account, key_id)
        return json_response(shown_key(row, (await keys.last_used([row])).get(key_id)), 200, NO_STORE)

    @router.delete(
        "/{key_id}",
        status_code=204,
        responses={204: {"description": "Revoked: refused within a second."}, **problems("not_found")},
    )
    async def delete_key(caller: Caller, key_id: KeyId, descendants: Descendants = "revoke") -> Response:
        """Revoke an API key of the account, at once and for good.

        All keys that descend from it (`parent`) end with it, unless `descendants` is `keep`: kept ones go on to
        share its rate. Sessions of revoked keys end, too. A key can revoke itself, its descendants, and keys that
        may do no more than it: one with a permission that it lacks, or with a longer time, other networks or a
        higher rate, is refused with 403.
        """
        await keys.revoke(caller, key_id, keeps_descendants=descendants == "keep")
        return Response(status_code=204)

    return router


def _token(row: ApiKey) -> str:
    return f"{row.issued}.{row.key_id}"


def _after(token: str | None, rows: Sequence[ApiKey]) -> Sequence[ApiKey]:
    """Return the keys after the place of a token, which may have been revoked. Raises `ValidationFailed`."""
    if token is None:
        return rows
    match = TOKEN.fullmatch(token)
    if match is None:
        raise no_token()
    place = -int(match[1]), match[2]
    return [row for row in rows if (-row.issued, row.key_id) > place]


PATH: Final = "/account"


class LooksShown(Looks):
    """The looks of the account's pages; null: the pages' own."""


class AccountShown(AccountSettings):
    """The settings of the caller's account."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [EXAMPLES["accounts"] | {"account": "a1", "brand_name": "a1"} | CHANGED],
        }
    )

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
    Changes = Annotated[Document, Depends(MergePatch(AccountSettings, ACCOUNTS.body_bytes))]

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
        responses={200: answer(AccountShown, "The changed settings."), **problems("quota_exceeded")},
    )
    async def patch_account(caller: Writer, changes: Changes, if_match: IfMatch = None) -> Response:
        """Change the account's settings.

        A JSON merge patch (RFC 7396): null resets a member. Legacy reads of production show the brand's name and
        image; the legacy test environment has no settings.
        """
        account = caller.account
        stored = await records.patch(ACCOUNTS, account, ACCOUNT_KEY, changes, fits(if_match), creates=True)
        return _shown(account, stored)

    return router


def _shown(account: str, stored: Stored | None, if_none_match: str | None = None) -> Response:
    shown = {} if stored is None else stored.document | stored.times
    record = AccountShown.model_validate({"brand_name": account} | shown | {"account": account})
    headers = {} if stored is None else {"ETag": etag(stored.updated)}
    return json_response(record.shown(), 200, headers, if_none_match=if_none_match)
