"""The opaque token in which a client carries a position of the votes log: the header `Tally-Position`.

A token names, for one or several partitions, the next offset that a view must have come to: the vote at offset o
is in once its partition's view stands at o + 1. Base64url without padding over msgpack `[version, partition,
offset, partition, offset, ...]`, partitions ascending, so that equal positions are equal tokens. It carries no log
id: a log that was recreated is the projector's to notice, and a token of the old one only waits in vain.
"""

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from typing import Final

import msgpack

VERSION: Final = 1
MAX_CHARACTERS: Final = 16_384
"""More than a thousand partitions; anything longer is none of ours."""
MAX_PARTITION: Final = 2**31 - 1
MAX_OFFSET: Final = 2**63 - 1


def encode_positions(positions: Mapping[int, int]) -> str:
    """The token of these next offsets by partition."""
    flat = [VERSION]
    for partition in sorted(positions):
        flat += partition, positions[partition]
    return urlsafe_b64encode(msgpack.packb(flat)).rstrip(b"=").decode()


def decode_positions(token: str) -> dict[int, int]:
    """The next offsets by partition. Raises ValueError, saying what is wrong, for anything but a token of ours."""
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
        raise ValueError(f"position token of an unknown version; this service knows {VERSION}")
    return _pairs(flat[1:])


def merge_positions(positions: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """The furthest offset of each partition: where all of `positions` are in."""
    furthest: dict[int, int] = {}
    for each in positions:
        for partition, offset in each.items():
            furthest[partition] = max(offset, furthest.get(partition, offset))
    return furthest


def _pairs(flat: list[int]) -> dict[int, int]:
    partitions, offsets = flat[::2], flat[1::2]
    if len(partitions) != len(offsets) or len(set(partitions)) != len(partitions):
        raise ValueError("position token with a partition that is doubled or lacks its offset")
    if any(not 0 <= partition <= MAX_PARTITION for partition in partitions):
        raise ValueError("position token with an impossible partition")
    if any(not 0 <= offset <= MAX_OFFSET for offset in offsets):
        raise ValueError("position token with an impossible offset")
    return dict(zip(partitions, offsets, strict=True))
