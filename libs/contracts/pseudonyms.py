"""How persons and addresses are named in the log, and what a voter can show for a vote.

HMAC-SHA-256 throughout, cut to 16 bytes, as unpadded base64url. The same id in two contests, or as a voter's and
as an anonymous one, gives two pseudonyms that nobody can link without the contest's secret.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as BadBase64
from hashlib import sha256
from hmac import compare_digest
from hmac import digest as hmac
from ipaddress import IPv6Address, ip_address
from typing import Literal

Kind = Literal["voter", "anonymous", "address", "purchase", "user", "content"]
"""Voters, addresses and purchases by a contest's secret; purchases, users and their content by an account's."""

SIZE = 16
TAG_SIZE = 12


def pseudonym(secret: bytes, kind: Kind, identity: str) -> str:
    """22 characters that stand for `identity` under one secret."""
    return _text(hmac(secret, f"{kind}\0{identity}".encode(), "sha256")[:SIZE])


def network_of(address: str) -> str:
    """What the address limit counts by: the IPv4 address, or the /64 of an IPv6 one. Raises ValueError."""
    parsed = ip_address(address)
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return f"{IPv6Address(int(parsed) >> 64 << 64)}/64"
    return str(parsed)


def content_hash(*parts: object) -> str:
    """11 characters that tell requests with the same vote id but other content apart."""
    return _text(sha256("\0".join(map(str, parts)).encode()).digest()[:8])


def receipt(server_key: bytes, contest: str, voter: str, vote_id: str) -> str:
    """A voter's proof of one accepted vote: derivable from the vote, checkable without it."""
    leaf = hmac(server_key, f"{contest}\0{voter}\0{vote_id}".encode(), "sha256")[:SIZE]
    body = contest.encode() + b"\0" + leaf
    return _text(body + hmac(server_key, body, "sha256")[:TAG_SIZE])


def is_receipt_of(server_key: bytes, contest: str, receipt: str) -> bool:
    """Whether this server gave `receipt` for a vote in `contest`."""
    try:
        raw = urlsafe_b64decode(receipt + "=" * (-len(receipt) % 4))
    except (BadBase64, ValueError):
        return False
    body, tag = raw[:-TAG_SIZE], raw[-TAG_SIZE:]
    genuine = compare_digest(hmac(server_key, body, "sha256")[:TAG_SIZE], tag)
    return genuine and body[: -SIZE - 1] == contest.encode()


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()
