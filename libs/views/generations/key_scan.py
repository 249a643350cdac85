"""Scans all keys of a topic's views."""

from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from libs.contracts.topics import Log
from libs.tally.errors import ViewsUnavailable
from libs.views.valkey.client import Valkey
from libs.views.valkey.hash_tags import Prefix, partition_in

_GLOB: Final = str.maketrans({character: f"\\{character}" for character in "*?[]\\^"})

SCANNED: Final = 1_000
"""Keys that one call examines."""


class GenerationKey(NamedTuple):
    """A `key` of a partition's generation, and its `name` within that."""

    key: bytes
    partition: int
    generation: int
    name: str


async def generation_keys(
    valkey: Valkey, namespace: str, prefix: Prefix, log: Log
) -> AsyncIterator[GenerationKey]:
    """Yield the keys of all generations; those written meanwhile may be missing, none occurs twice.

    Raises `ViewsUnavailable`, also if slots were moved between shards meanwhile: keys might be missing then.
    """
    pattern = f"{namespace.translate(_GLOB)}:{{*}}:g*:*"
    seen = set[bytes]()
    shards = await valkey.shards()
    for shard in shards:
        async for key in _scan(shard.valkey, pattern):
            text = key.decode()
            partition = partition_in(text, namespace, prefix, log)
            number, _, name = text.partition("}:g")[2].partition(":")
            if partition is not None and number.isdecimal() and key not in seen:
                seen.add(key)
                yield GenerationKey(key, partition, int(number), name)
    if await valkey.shards() != shards:
        raise ViewsUnavailable("Data moved between servers while it was read; retry shortly.", retry_after_s=1)


async def _scan(server: Valkey, pattern: str) -> AsyncIterator[bytes]:
    cursor = 0
    while True:
        cursor, keys = await server.call("SCAN", cursor, "MATCH", pattern, "COUNT", SCANNED)
        for key in keys:
            yield key
        if int(cursor) == 0:
            return
