"""Links that open the screens of one contest without an API key: signed, revocable, with an end."""

import time
from hashlib import sha256
from typing import Final, NamedTuple

from itsdangerous import BadSignature, Signer
from starlette.types import Scope

from libs.catalogue.schemas.contest import Link
from libs.contracts.catalogue_events import ApiKey, Stored
from libs.storage.secret_rings import SecretRing
from libs.tally.time_conversion import microseconds
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.web.door.auth import Authenticator, header
from libs.web.errors import Unauthorized

HEADER: Final = b"tally-link"
"""The header with a link's token. Browsers send it from the part of an address after `#`, which no server logs."""
NO_LINK: Final = "This link has ended, or was never made."


class LinkedContest(NamedTuple):
    """What a link opens; `link` is its key."""

    account: str
    contest: str
    link: str


class WallLinks:
    """Signs and checks the tokens of links. Their records are in the catalogue, so that they can be revoked."""

    def __init__(self, secrets: SecretRing, views: CatalogueViews) -> None:
        self._secrets = secrets
        self._views = views

    async def token(self, key: str) -> str:
        """Return the token of the link with this key. Raises `StorageUnavailable`."""
        return _signer(await self._secrets()).sign(key).decode()

    async def opened_by(self, token: str) -> LinkedContest:
        """Return the contest that the token opens now.

        Raises `Unauthorized`, `StorageUnavailable` and `ViewsUnavailable`.
        """
        key = _key(await self._secrets(), token) or _key(await self._secrets(again=True), token)
        account = None if key is None else await self._views.find_owner("links", key)
        if key is None or account is None:
            raise Unauthorized(NO_LINK)
        stored = await self._views.get(account, "links", key)
        if stored is None or expiry_of(stored) <= time.time_ns() // 1000:
            raise Unauthorized(NO_LINK)
        return LinkedContest(account, stored.parent, key)


class Viewers:
    """Tells callers with an API key, or its session, from those with a link."""

    def __init__(self, auth: Authenticator, links: WallLinks) -> None:
        self._auth = auth
        self._links = links

    async def authenticate(self, scope: Scope) -> ApiKey | LinkedContest:
        """Return the key, or what the link opens. Raises as `Authenticator.authenticate` and `opened_by`."""
        token = header(scope["headers"], HEADER)
        return await (self._auth.authenticate(scope) if token is None else self._links.opened_by(token))


def expiry_of(stored: Stored) -> int:
    """Return the time from which on the link opens nothing (us)."""
    expires = Link.model_validate(stored.document).expires
    return 0 if expires is None else microseconds(expires)


def _signer(secrets: tuple[bytes, ...]) -> Signer:
    return Signer(secrets, salt=b"wall link", digest_method=sha256)


def _key(secrets: tuple[bytes, ...], token: str) -> str | None:
    try:
        return _signer(secrets).unsign(token).decode()
    except (BadSignature, UnicodeError):
        return None
