"""Compares the functions in Valkey with those of this version."""

from typing import Any

from libs.views.client import Valkey
from libs.views.functions import libraries


async def outdated_libraries(valkey: Valkey) -> list[str]:
    """Return the libraries that are not loaded, or whose source differs from this version's."""
    reply = await valkey.call("FUNCTION", "LIST", "WITHCODE")
    loaded = {_text(library["library_name"]): _text(library["library_code"]) for library in map(_members, reply)}
    return [name for name, source in libraries() if loaded.get(name) != source]


def _members(library: Any) -> dict[str, Any]:
    pairs = library.items() if isinstance(library, dict) else zip(library[::2], library[1::2], strict=True)
    return {_text(name): value for name, value in pairs}


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
