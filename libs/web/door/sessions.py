"""Browser sessions: a signed cookie that names an API key, and single-use tickets that start a session."""

import secrets
from contextlib import suppress
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final, NamedTuple, Protocol

from itsdangerous import BadSignature, TimestampSigner

COOKIE: Final = "tally_session"
SECURE_COOKIE: Final = f"__Host-{COOKIE}"
"""The cookie's name over HTTPS: browsers accept it from this host over HTTPS alone."""
SESSION_S: Final = 12 * 3600
TICKET_S: Final = 60
SESSION: Final = b"session"
TICKET: Final = b"ticket"


class SessionSecrets(Protocol):
    """Signing secrets shared by all processes."""

    async def __call__(self, again: bool = False) -> tuple[bytes, ...]:
        """Return all secrets for verification; the last one signs. `again` reads also the newest ones."""


class SignedText(NamedTuple):
    text: str
    signed_at: datetime


class Ticket(NamedTuple):
    """Starts a session of this key; the receiver must accept each `nonce` only once."""

    key_id: str
    nonce: str


class Sessions:
    """Signs and verifies cookies and tickets. Stateless: a key's permissions are looked up for each request.

    Each call reads `secrets` and raises its errors; a signature that the known ones do not verify may be another
    process's, by a newer one.
    """

    def __init__(self, secrets: SessionSecrets) -> None:
        self._secrets = secrets

    async def issue(self, key_id: str) -> str:
        """Return the session cookie of this key, valid for `SESSION_S`."""
        return _signer(await self._secrets(), SESSION).sign(key_id).decode()

    async def key_id(self, cookies: str, over_tls: bool = False) -> str | None:
        """Return the key id of the session in the header `Cookie`; None if it is missing, forged or expired."""
        session = await self._session(cookies, over_tls)
        return None if session is None else session.text

    async def expires_at(self, cookies: str, over_tls: bool = False) -> datetime | None:
        """Return the end of the session in the header `Cookie`; None without a valid one."""
        session = await self._session(cookies, over_tls)
        return None if session is None else session.signed_at + timedelta(seconds=SESSION_S)

    async def issue_ticket(self, key_id: str) -> str:
        """Return a ticket for a URL that a browser opens, valid for `TICKET_S`."""
        return _signer(await self._secrets(), TICKET).sign(f"{key_id}~{secrets.token_urlsafe(16)}").decode()

    async def ticket(self, ticket: str) -> Ticket | None:
        """Return the verified ticket; None if it is forged or expired."""
        signed = await self._verified(TICKET, ticket, TICKET_S)
        return None if signed is None else Ticket(*signed.text.split("~", 1))

    async def _session(self, cookies: str, over_tls: bool) -> SignedText | None:
        value = session_cookie(cookies, over_tls)
        return None if value is None else await self._verified(SESSION, value, SESSION_S)

    async def _verified(self, salt: bytes, value: str, max_age_s: int) -> SignedText | None:
        for again in (False, True):
            signer = _signer(await self._secrets(again), salt)
            with suppress(BadSignature, UnicodeError):
                text, signed_at = signer.unsign(value, max_age=max_age_s, return_timestamp=True)
                return SignedText(text.decode(), signed_at)
        return None


def _signer(secrets: tuple[bytes, ...], salt: bytes) -> TimestampSigner:
    return TimestampSigner(secrets, salt=salt, digest_method=sha256)


def session_cookie(cookies: str, over_tls: bool = False) -> str | None:
    """Return the value of the session's cookie in the header `Cookie`.

    A host nearby, or a page over plain HTTP, may plant a cookie of the plain name: it does not count beside the
    other, nor over TLS, and of several of one name none does.
    """
    pairs = [pair.strip().partition("=") for pair in cookies.split(";")]
    for name in (SECURE_COOKIE,) if over_tls else (SECURE_COOKIE, COOKIE):
        values = [value.strip().strip('"') for found, _, value in pairs if found.strip() == name]
        if values:
            return values[0] if len(values) == 1 else None
    return None
