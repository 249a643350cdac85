"""Browser sessions: a signed cookie that names an API key, and single-use tickets that start a session."""

import secrets
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final, NamedTuple, Protocol

from itsdangerous import BadSignature, TimestampSigner

COOKIE: Final = "tally_session"
SECURE_COOKIE: Final = f"__Host-{COOKIE}"
"""The cookie's name over HTTPS: browsers accept it from this host over HTTPS alone."""
SESSION_S: Final = 12 * 3600
TICKET_S: Final = 60


class SessionSecrets(Protocol):
    """Signing secrets shared by all processes."""

    async def __call__(self, again: bool = False) -> tuple[bytes, ...]:
        """Return all secrets for verification; the last one signs. `again` reads also the newest ones."""


class Ticket(NamedTuple):
    """Starts a session of this key; the receiver must accept each `nonce` only once."""

    key_id: str
    nonce: str


class Sessions:
    """Signs and verifies cookies and tickets. Stateless: a key's permissions are looked up for each request.

    Each `load` calls `secrets` and raises its errors.
    """

    def __init__(self, secrets: SessionSecrets) -> None:
        self._secrets = secrets
        self._known: tuple[bytes, ...] = ()
        self._session: TimestampSigner | None = None
        self._ticket: TimestampSigner | None = None

    async def load(self, again: bool = False) -> None:
        """Load the secrets, before every other call. `again`: another process's signature was not recognised."""
        known = await self._secrets(again)
        if known != self._known:
            self._known = known
            self._ticket = TimestampSigner(known, salt=b"ticket", digest_method=sha256)
            self._session = TimestampSigner(known, salt=b"session", digest_method=sha256)

    def issue(self, key_id: str) -> str:
        """Return the session cookie of this key, valid for `SESSION_S`."""
        return _loaded(self._session).sign(key_id).decode()

    def key_id(self, cookies: str, over_tls: bool = False) -> str | None:
        """Return the key id of the session in the header `Cookie`.

        None if it is missing, forged or expired, and before `load`.
        """
        value = session_cookie(cookies, over_tls)
        return None if value is None or self._session is None else _read(self._session, value, SESSION_S)

    def expires_at(self, cookies: str, over_tls: bool = False) -> datetime | None:
        """Return the end of the session in the header `Cookie`; None without a valid one, and before `load`."""
        value = session_cookie(cookies, over_tls)
        if value is None or self._session is None:
            return None
        try:
            _, began = self._session.unsign(value, max_age=SESSION_S, return_timestamp=True)
        except BadSignature:
            return None
        return began + timedelta(seconds=SESSION_S)

    def issue_ticket(self, key_id: str) -> str:
        """Return a ticket for a URL that a browser opens, valid for `TICKET_S`."""
        return _loaded(self._ticket).sign(f"{key_id}~{secrets.token_urlsafe(16)}").decode()

    def ticket(self, ticket: str) -> Ticket | None:
        """Return the verified ticket; None if it is forged or expired."""
        value = _read(_loaded(self._ticket), ticket, TICKET_S)
        return None if value is None else Ticket(*value.split("~", 1))


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


def _read(signer: TimestampSigner, value: str, max_age_s: int) -> str | None:
    try:
        return signer.unsign(value, max_age=max_age_s).decode()
    except (BadSignature, UnicodeError):
        return None


def _loaded(signer: TimestampSigner | None) -> TimestampSigner:
    if signer is None:
        raise RuntimeError("call load() first")
    return signer
