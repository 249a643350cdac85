"""Opaque tokens of positions in the votes log, sent in the header `Tally-Position`.

A token holds, for one or several partitions, the next offset that a view must reach: the vote at offset o is
included once the view of its partition is at o + 1. A partition holds the votes of all accounts, so offsets
would show the others' volume: tokens are encrypted with a secret of the server, and no other text is a token.
Equal positions give equal tokens under the same secret. A token has no log id: the projector detects a recreated
log, and a wait for a token of the old log times out.

Encoding: base64url without padding of AES-SIV (RFC 5297) over a version byte and, for each partition in ascending
order, 4 bytes of its number and 8 of the offset. Its length shows only the number of partitions.
"""

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha512
from struct import Struct
from typing import Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

VERSION: Final = b"\1"
MAX_CHARACTERS: Final = 16_384
"""Enough for a thousand partitions; longer tokens are rejected."""
_PAIR: Final = Struct(">IQ")
BROKEN: Final = "not a position token of this service"


class PositionSecrets(Protocol):
    """Secrets shared by all processes."""

    async def __call__(self, again: bool = False) -> tuple[bytes, ...]:
        """Return all secrets; the last one is used for new tokens. `again` reads also the newest ones."""

    @property
    def is_loaded(self) -> bool:
        """True if a call would read nothing."""


class PositionTokens:
    """Encrypts and decrypts tokens. Each `load` calls `secrets` and raises its errors."""

    def __init__(self, secrets: PositionSecrets) -> None:
        self._secrets = secrets
        self._known: tuple[bytes, ...] = ()
        self._ciphers: tuple[AESSIV, ...] = ()
        self._latest: tuple[Mapping[int, int] | None, AESSIV | None, str] = None, None, ""

    @property
    def is_loaded(self) -> bool:
        """True if `encode` may be called without another `load` first."""
        return self._secrets.is_loaded and bool(self._ciphers)

    async def load(self, again: bool = False) -> None:
        """Load the secrets, before every other call. `again`: another process's token was not recognised."""
        known = await self._secrets(again)
        if known != self._known:
            self._ciphers = tuple(AESSIV(sha512(b"positions\0" + secret).digest()) for secret in known)
            self._known = known

    def encode(self, positions: Mapping[int, int]) -> str:
        """Encode the next offsets by partition: some 5 us for one.

        The same mapping as before, whose offsets must not have changed, is not encoded again.
        """
        cipher = self._ciphers[-1]
        if self._latest[0] is positions and self._latest[1] is cipher:
            return self._latest[2]
        pairs = [_PAIR.pack(partition, positions[partition]) for partition in sorted(positions)]
        encrypted = cipher.encrypt(b"".join((VERSION, *pairs)), None)
        token = urlsafe_b64encode(encrypted).rstrip(b"=").decode()
        self._latest = positions, cipher, token
        return token

    async def decode(self, token: str) -> dict[int, int]:
        """Decode the next offsets by partition. Raises ValueError with the reason for an invalid token."""
        await self.load()
        found = self._decrypted(token)
        if found is None:
            await self.load(again=True)
            found = self._decrypted(token)
        if found is None:
            raise ValueError(BROKEN)
        return dict(_PAIR.iter_unpack(found[len(VERSION) :]))

    def _decrypted(self, token: str) -> bytes | None:
        if not 0 < len(token) <= MAX_CHARACTERS:
            raise ValueError(f"a position token has 1 to {MAX_CHARACTERS} characters, this one {len(token)}")
        try:
            raw = b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        except ValueError as error:
            raise ValueError(BROKEN) from error
        for cipher in reversed(self._ciphers):
            try:
                return cipher.decrypt(raw, None)
            except (InvalidTag, ValueError):  # of another secret, or shorter than a tag
                continue
        return None


def merge_positions(positions: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """Return the largest offset of each partition: the position that includes all `positions`."""
    furthest: dict[int, int] = {}
    for each in positions:
        for partition, offset in each.items():
            furthest[partition] = max(offset, furthest.get(partition, offset))
    return furthest
