"""Opaque token of a position in the votes log, sent in the header `Tally-Position`.

A token holds, for one or several partitions, the next offset that a view must reach: the vote at offset o is
included once the view of its partition is at o + 1. Encoding: base64url without padding of msgpack `[version,
partition, offset, partition, offset, ...]`, partitions ascending, so equal positions give equal tokens. It has no
log id: the projector detects a recreated log, and a wait for a token of the old log times out.
"""

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from typing import Final

import msgpack

VERSION: Final = 1
MAX_CHARACTERS: Final = 16_384
"""Enough for more than a thousand partitions; longer tokens are rejected."""
MAX_PARTITION: Final = 2**31 - 1
MAX_OFFSET: Final = 2**63 - 1
_pack: Final = msgpack.Packer(autoreset=True).pack
"""One packer for all calls; `msgpack.packb` builds one for each."""


def encode_positions(positions: Mapping[int, int]) -> str:
    """Encode the next offsets by partition."""
    flat = [VERSION]
    for partition in sorted(positions):
        flat += partition, positions[partition]
    return urlsafe_b64encode(_pack(flat)).rstrip(b"=").decode()


def decode_positions(token: str) -> dict[int, int]:
    """Decode the next offsets by partition. Raises ValueError with the reason for an invalid token."""
    if not 0 < len(token) <= MAX_CHARACTERS:
        raise ValueError(f"a position token has 1 to {MAX_CHARACTERS} characters, this one {len(token)}")
    try:
        raw = b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        flat = msgpack.unpackb(raw)
    except (ValueError, msgpack.UnpackException) as error:
        raise ValueError("not a position token: it cannot be decoded") from error
    if not isinstance(flat, list) or not all(type(number) is int for number in flat):
        raise ValueError("not a position token: it holds no list of numbers")
    if not flat or flat[0] != VERSION:
        raise ValueError(f"position token of an unknown version; this service supports {VERSION}")
    return _pairs(flat[1:])


def merge_positions(positions: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """Return the largest offset of each partition: the position that includes all `positions`."""
    furthest: dict[int, int] = {}
    for each in positions:
        for partition, offset in each.items():
            furthest[partition] = max(offset, furthest.get(partition, offset))
    return furthest


def _pairs(flat: list[int]) -> dict[int, int]:
    partitions, offsets = flat[::2], flat[1::2]
    if len(partitions) != len(offsets) or len(set(partitions)) != len(partitions):
        raise ValueError("position token with a duplicate partition or a missing offset")
    if any(not 0 <= partition <= MAX_PARTITION for partition in partitions):
        raise ValueError("position token with an invalid partition")
    if any(not 0 <= offset <= MAX_OFFSET for offset in offsets):
        raise ValueError("position token with an invalid offset")
    return dict(zip(partitions, offsets, strict=True))
