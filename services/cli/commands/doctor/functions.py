"""Compares the functions in Valkey with those of this version."""

from libs.views.client import Valkey
from libs.views.functions import libraries


async def outdated_libraries(valkey: Valkey) -> list[str]:
    """Return the libraries that a shard lacks, or whose source differs there from this version's."""
    shards = await valkey.shards()
    outdated = {name for shard in shards for name in await _outdated_on(shard.valkey)}
    return sorted(outdated)


async def _outdated_on(server: Valkey) -> list[str]:
    listed = await server.call("FUNCTION", "LIST", "WITHCODE")
    found = [dict(zip(flat[::2], flat[1::2], strict=True)) for flat in listed]
    loaded = {library[b"library_name"].decode(): library[b"library_code"].decode() for library in found}
    return [name for name, source in libraries() if loaded.get(name) != source]
