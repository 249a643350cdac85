"""Hash tags of partitions, chosen so that the shards of a cluster hold equal numbers of partitions.

Valkey Cluster divides 16,384 slots among its shards, in equal ranges, and a key's tag decides its slot. Partition
numbers as tags would lie anywhere: 16 of them on 8 shards as 4, 0, 4, 0 and so on. So the tag of partition p of P
has a suffix that puts it into the p-th of P equal ranges of slots, at the same place in each. A shard's range then
contains as many of these places as any other's, or one more, for each number of shards up to P.
"""

from binascii import crc_hqx
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise, product
from typing import Final, Literal

from libs.contracts.topics import Log

Prefix = Literal["votes", "catalogue", "purchases"]
"""Prefix of the function names of one library."""
_LETTERS: Final[dict[Prefix, str]] = {"votes": "", "catalogue": "c", "purchases": "q"}
SLOTS: Final = 16_384
_PLACES: Final = (0.55, 0.45, 0.6, 0.4, 0.65, 0.35)
"""Places in a range, from 0 to 1."""
_MOST_SHARDS: Final = 64
_SUFFIX_SIZE: Final = 4
_ALPHABET: Final = "abcdefghijklmnopqr"
"""Four of these letters reach every slot."""


def slot_of(key: bytes) -> int:
    """Return the slot of a key: of its hash tag, the text in its first braces, unless that is empty."""
    _, opened, rest = key.partition(b"{")
    tag, closed, _ = rest.partition(b"}")
    return crc_hqx(tag if opened and closed and tag else key, 0) % SLOTS


def key_base(namespace: str, prefix: Prefix, partition: int, partitions: int, first: int = 0) -> str:
    """Return the beginning of all keys of one of a topic's `partitions`, which are numbered from `first`."""
    return f"{namespace}:{{{_tags(prefix, partitions, first)[partition - first]}}}"


def base_in(log: Log, namespace: str, prefix: Prefix, partition: int) -> str:
    """Return the beginning of all keys of one of a log's partitions. Raises KeyError for an unknown one."""
    topic = log.topic_at(partition)
    return key_base(namespace, prefix, partition, topic.partitions, topic.first)


def partition_in(key: str, namespace: str, prefix: Prefix, log: Log) -> int | None:
    """Return the partition of a log's key; None for any other key."""
    head = f"{namespace}:{{{_LETTERS[prefix]}"
    number = key.removeprefix(head).partition(".")[0]
    if not key.startswith(head) or not number.isdecimal() or int(number) not in log.numbers:
        return None
    base = base_in(log, namespace, prefix, int(number))
    return int(number) if key.startswith(f"{base}:") else None


@lru_cache(maxsize=16)
def _tags(prefix: Prefix, partitions: int, first: int) -> tuple[str, ...]:
    """Return the tags of all partitions of a topic. No other topic has them, since it has other numbers."""
    heads = [f"{_LETTERS[prefix]}{first + place}." for place in range(partitions)]
    return tuple(head + _suffix(head, slot) for head, slot in zip(heads, slots_of(partitions), strict=True))


@lru_cache(maxsize=16)
def slots_of(partitions: int) -> tuple[int, ...]:
    """Return each partition's slot: one in each of as many equal ranges, at the same place in all of them.

    The place is the first at which no rounding of a slot and of a shard's border unbalances any cluster.
    """
    placed = (tuple(int((each + place) * SLOTS / partitions) for each in range(partitions)) for place in _PLACES)
    first, *others = placed
    return next((slots for slots in (first, *others) if _is_balanced(slots)), first)


def shard_borders(shards: int) -> list[int]:
    """Return each shard's first slot, and the end of the last, as `valkey-cli --cluster create` divides them."""
    return [int(shard * SLOTS / shards + 0.5) for shard in range(shards + 1)]


def _is_balanced(slots: Sequence[int]) -> bool:
    """Return whether no two shards of a cluster of any size differ by more than one partition."""
    for shards in range(2, min(_MOST_SHARDS, len(slots)) + 1):
        places = [bisect_left(slots, border) for border in shard_borders(shards)]
        held = [end - begin for begin, end in pairwise(places)]
        if max(held) - min(held) > 1:
            return False
    return True


def _suffix(head: str, slot: int) -> str:
    """Return the suffix that puts `head` into `slot`: a CRC of a text is that of its parts, combined by XOR."""
    of_head = crc_hqx(bytes(_SUFFIX_SIZE), crc_hqx(head.encode(), 0))
    wanted = (of_head ^ slot) % SLOTS
    firsts, seconds = _halves()
    return next(half + seconds[wanted ^ place] for place, half in firsts if wanted ^ place in seconds)


@cache
def _halves() -> tuple[Sequence[tuple[int, str]], Mapping[int, str]]:
    """Return the first halves of suffixes, the last one first, with their slots; and a second half by slot.

    They take a millisecond at the start of each process, all 100,000 suffixes a twentieth of a second.
    """
    halves = ["".join(letters) for letters in product(_ALPHABET, repeat=_SUFFIX_SIZE // 2)]
    crcs = {half: crc_hqx(half.encode(), 0) for half in halves}
    firsts = [(crc_hqx(bytes(_SUFFIX_SIZE // 2), crcs[half]) % SLOTS, half) for half in reversed(halves)]
    return firsts, {crc % SLOTS: half for half, crc in crcs.items()}
