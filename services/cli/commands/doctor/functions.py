"""Finds the libraries of functions that Valkey has loaded."""

from collections.abc import Sequence

from libs.views.valkey.client import Shard
from libs.views.valkey.function_libraries import libraries, version
from libs.views.valkey.function_loading import loaded_libraries


async def missing_libraries(shards: Sequence[Shard]) -> list[str]:
    """Return the libraries of this version that a shard lacks."""
    loaded = [(await loaded_libraries(shard.valkey)).get(version(), []) for shard in shards]
    return [library.loaded_name for library in libraries() if not all(library.name in names for names in loaded)]


async def other_versions(shards: Sequence[Shard]) -> set[str]:
    """Return the other versions of which a shard has functions."""
    loaded = [await loaded_libraries(shard.valkey) for shard in shards]
    return {found for versions in loaded for found in versions} - {version()}
