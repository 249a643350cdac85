"""The libraries of Valkey functions: their sources, and the names under which this version's functions are loaded.

The Lua files of `catalogue`, `purchases` and `votes` are a library each, joined in the order of their names; those
of `valkey` and `generations` are prepended to every library. All names end with the version, the hash of all
sources: libraries of several versions are loaded side by side, so that processes of two versions can run at once.
"""

import re
from collections.abc import Awaitable, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgpack

from libs.views.valkey.client import Valkey

SOURCES = Path(__file__).parents[1]
"""Has a folder of Lua files for each library, and two whose files are part of every library."""
SHARED: Final = "valkey", "generations"
VERSION_DIGITS: Final = 12
SCHEMA: Final = re.compile(r"local SCHEMA = (\d+)")

pack = msgpack.Packer(use_bin_type=False, autoreset=True).pack


def unpack(reply: bytes) -> Any:
    return msgpack.unpackb(reply, raw=True, strict_map_key=False)


class Library(NamedTuple):
    """A library as it is loaded, and its name without the version."""

    name: str
    loaded_name: str
    source: str


@cache
def libraries() -> Sequence[Library]:
    """Return the libraries of this version."""
    number, found = version(), []
    for name, code in _codes().items():
        loaded = f"tally_{name}_{number}"
        head = f"#!lua name={loaded}\nlocal library = {{ version = '{number}' }}\n"
        found.append(Library(name, loaded, head + code))
    return found


@cache
def version() -> str:
    """Return the hash of all sources."""
    return sha256("\0".join(_codes().values()).encode()).hexdigest()[:VERSION_DIGITS]


@cache
def layouts() -> str:
    """Return the numbers of the stored layouts of this version, in the order of the libraries' names."""
    return ".".join(SCHEMA.findall(code)[0] for _, code in sorted(_codes().items()))


@cache
def versioned(function: str) -> str:
    """Return the name under which a function of this version is loaded."""
    return f"{function}_{version()}"


def call_function(valkey: Valkey, function: str, key: str, *args: Any) -> Awaitable[Any]:
    """Call a function of this version on the partition or counter at `key`."""
    return call_with_keys(valkey, function, (key,), *args)


def call_with_keys(valkey: Valkey, function: str, keys: Sequence[str], *args: Any) -> Awaitable[Any]:
    """Call a function of this version on several keys, which are all on one server that is no cluster."""
    return valkey.call("FCALL", versioned(function), len(keys), *keys, *args)


def call_together(
    valkey: Valkey, function: str, pairs: Sequence[tuple[str, Any]], named: Sequence[str] = ()
) -> Awaitable[Any]:
    """Call a function once for several keys, each with an argument. The reply is a list: of each a reply or error.

    `named` are further keys, which arguments name. Several keys of different slots are allowed only if the server
    is no cluster (`Valkey.is_cluster`).
    """
    keys = [*(key for key, _ in pairs), *named]
    return call_with_keys(valkey, function, keys, *(argument for _, argument in pairs))


def read_function(valkey: Valkey, function: str, key: str, *args: Any) -> Awaitable[Any]:
    """Call a read-only function, which Valkey users without write permission may do."""
    return valkey.call("FCALL_RO", versioned(function), 1, key, *args)


def _codes() -> dict[str, str]:
    shared = [part for room in SHARED for part in sorted((SOURCES / room).glob("*.lua"))]
    return {
        room: "\n".join(part.read_text() for part in (*shared, *sorted((SOURCES / room).glob("*.lua"))))
        for room in ("catalogue", "purchases", "votes")
    }
