"""Pseudonyms of persons and addresses in the log, and receipts of votes.

Pseudonyms are HMAC-SHA-256 truncated to 16 bytes, as unpadded base64url. The same id in two contests, or as a
voter and as an anonymous voter, gives two pseudonyms that cannot be linked without the contest's secret.
"""

from base64 import urlsafe_b64decode
from binascii import Error as BadBase64
from binascii import b2a_base64
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from hmac import compare_digest
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from libs.tally.events import Rating, Source

Kind = Literal["voter", "anonymous", "address", "purchase", "user"]
"""A contest's secret keys voters, addresses and purchases; an account's keys purchases and their buyers."""

SIZE = 16
TAG_SIZE = 12
BLOCK_BYTES: Final = 64
"""Size of a block of SHA-256."""
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")


def pseudonym(secret: bytes, kind: Kind, identity: str) -> str:
    """Return the pseudonym, 22 characters, of `identity` under a secret."""
    return _text(_hmac(secret, f"{kind}\0{identity}".encode())[:SIZE])


def content_hash(*parts: object) -> str:
    """Hash the content of a request to 11 characters, to detect a vote id reused with other content."""
    return _text(sha256("\0".join(map(str, parts)).encode()).digest()[:8])


def content_of(
    voter: str,
    source: Source,
    participant: str | None,
    count: int,
    rating: Rating | None = None,
    positions: Sequence[tuple[str, str]] | None = None,
) -> str:
    """Hash a vote's content: all but its id, address and platform. `positions` must be sorted by id."""
    if rating is None and positions is None:
        return content_hash(voter, source, participant, count)
    return content_hash(voter, source, participant, count, rating, positions)


def receipt(server_key: bytes, contest: str, voter: str, vote_id: str) -> str:
    """Derive a voter's proof of one accepted vote; `is_receipt_of` checks it without the vote."""
    leaf = _hmac(server_key, f"{contest}\0{voter}\0{vote_id}".encode())[:SIZE]
    body = contest.encode() + b"\0" + leaf
    return _text(body + _hmac(server_key, body)[:TAG_SIZE])


def is_receipt_of(server_key: bytes, contest: str, receipt: str) -> bool:
    """Return whether the holder of `server_key` issued `receipt` for a vote in `contest`."""
    try:
        raw = urlsafe_b64decode(receipt + "=" * (-len(receipt) % 4))
    except (BadBase64, ValueError):
        return False
    body, tag = raw[:-TAG_SIZE], raw[-TAG_SIZE:]
    genuine = compare_digest(_hmac(server_key, body)[:TAG_SIZE], tag)
    return genuine and body[: -SIZE - 1] == contest.encode()


def _hmac(key: bytes, message: bytes) -> bytes:
    """Return the HMAC-SHA-256 (RFC 2104). Copies of keyed hashes take half as long as those of `hmac.HMAC`."""
    inner, outer = _keyed(key)
    inner, outer = inner.copy(), outer.copy()
    inner.update(message)
    outer.update(inner.digest())
    mac: bytes = outer.digest()
    return mac


@lru_cache(maxsize=256)
def _keyed(key: bytes) -> tuple[Any, Any]:
    """Return the inner and the outer hash after their first block, which only depends on the key."""
    block = (key if len(key) <= BLOCK_BYTES else sha256(key).digest()).ljust(BLOCK_BYTES, b"\0")
    return sha256(block.translate(_INNER)), sha256(block.translate(_OUTER))


def _text(raw: bytes) -> str:
    """Return unpadded base64url, in half the time of `urlsafe_b64encode`."""
    return b2a_base64(raw, newline=False).rstrip(b"=").translate(_URL_SAFE).decode()


MAX_IDENTITY_BYTES: Final = 256


def _check(value: str) -> str:
    if not 1 <= len(value.encode()) <= MAX_IDENTITY_BYTES:
        raise PydanticCustomError("identity", "must be 1 to 256 bytes of UTF-8")
    if not value.isprintable() and any(ord(c) < 32 or 127 <= ord(c) < 160 for c in value):
        raise PydanticCustomError("identity", "must not contain control characters")
    return value


Identity = Annotated[
    str,
    AfterValidator(_check),
    WithJsonSchema(
        {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_IDENTITY_BYTES,
            "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]*$",
        }
    ),
]
"""The caller's id of a voter or user."""
