"""Log-in of browsers: a signed cookie that names an API key, and tickets that open a session once."""

import secrets
from hashlib import sha256
from typing import Final, NamedTuple, Protocol

from itsdangerous import BadSignature, TimestampSigner
from starlette.requests import cookie_parser

COOKIE: Final = "tally_session"
SESSION_S: Final = 12 * 3600
TICKET_S: Final = 60


class Secrets(Protocol):
    """Signing secrets that all processes share."""

    async def __call__(self, again: bool = False) -> tuple[bytes, ...]:
        """All that verify; the last one signs. `again`: also those made a moment ago."""


class Ticket(NamedTuple):
    """Opens a session of this key; whoever admits it sees to it that `nonce` comes but once."""

    key_id: str
    nonce: str


class Sessions:
    """Signs and reads what browsers show. It holds no state: what a key allows is asked of the keys each time.

    `secrets` are asked at each `load`, whose errors are theirs.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._known: tuple[bytes, ...] = ()
        self._session: TimestampSigner | None = None
        self._ticket: TimestampSigner | None = None

    async def load(self, again: bool = False) -> None:
        """Before anything else, each time. `again`: what another process signed is not known here."""
        known = await self._secrets(again)
        if known != self._known:
            self._known = known
            self._ticket = TimestampSigner(known, salt=b"ticket", digest_method=sha256)
            self._session = TimestampSigner(known, salt=b"session", digest_method=sha256)

    def issue(self, key_id: str) -> str:
        """The cookie of a session of this key, good for `SESSION_S`."""
        return _loaded(self._session).sign(key_id).decode()

    def key_id(self, cookies: str) -> str | None:
        """Whose session the header `Cookie` carries; None for none, a forged or an old one, and before `load`."""
        value = cookie_parser(cookies).get(COOKIE)
        return None if value is None or self._session is None else _read(self._session, value, SESSION_S)

    def issue_ticket(self, key_id: str) -> str:
        """Good for `TICKET_S`: for an address that a browser is opened at."""
        return _loaded(self._ticket).sign(f"{key_id}~{secrets.token_urlsafe(16)}").decode()

    def ticket(self, ticket: str) -> Ticket | None:
        """None for a forged or an old one."""
        value = _read(_loaded(self._ticket), ticket, TICKET_S)
        return None if value is None else Ticket(*value.split("~", 1))


def _read(signer: TimestampSigner, value: str, max_age_s: int) -> str | None:
    try:
        return signer.unsign(value, max_age=max_age_s).decode()
    except (BadSignature, UnicodeError):
        return None


def _loaded(signer: TimestampSigner | None) -> TimestampSigner:
    if signer is None:
        raise RuntimeError("load() comes first")
    return signer
