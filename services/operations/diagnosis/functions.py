"""Whether the functions in Valkey are those of this version."""

from pathlib import Path
from typing import Any

import libs.views.functions
from libs.views.client import Valkey

SOURCES = Path(libs.views.functions.__file__).parent


async def outdated_libraries(valkey: Valkey) -> list[str]:
    """The libraries that are not loaded, or loaded from another text than the one beside our code."""
    reply = await valkey.call("FUNCTION", "LIST", "WITHCODE")
    loaded = {_text(library["library_name"]): _text(library["library_code"]) for library in map(_members, reply)}
    outdated = []
    for file in sorted(SOURCES.glob("*.lua")):
        source = file.read_text()
        name = source.splitlines()[0].partition("name=")[2].strip()
        if loaded.get(name) != source:
            outdated.append(name)
    return outdated


def _members(library: Any) -> dict[str, Any]:
    pairs = library.items() if isinstance(library, dict) else zip(library[::2], library[1::2], strict=True)
    return {_text(name): value for name, value in pairs}


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
