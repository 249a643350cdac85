"""A Valkey in this process: the shipped functions in LuaJIT or Lua 5.1, above commands in `memory_valkey.lua`.

So the model of the views is the shipped code: no second set of rules exists. `test_memory_valkey.py` holds it
equal to a real Valkey.
"""

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import hiredis

try:
    from lupa import luajit21 as lua
except ImportError:  # where lupa was built without it
    from lupa import lua51 as lua

from libs.views.valkey.function_libraries import SCHEMA, libraries, version

if TYPE_CHECKING:
    from tests.simulation.simulated_valkey import SimulatedServer

SOURCE: Final = Path(__file__).with_name("memory_valkey.lua").read_bytes()
LIST: Final = 2
"""Kind of a reply: a list, whose length and members follow."""
FUNCTION_MISSING: Final = "ERR Function not found"

Change = tuple[str, str]
"""Text of the functions, and its replacement: a mutation."""


class Backend(Protocol):
    """The data and the functions of one simulated server."""

    host: "SimulatedServer"

    def execute(self, command: tuple[Any, ...]) -> Any:
        """Return the reply as hiredis would; raises `hiredis.ReplyError`."""

    def execute_all(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return the replies to calls of processes, errors as values."""
        replies = []
        for command in commands:
            self.host.begin_call()
            try:
                replies.append(self.execute(command))
            except hiredis.ReplyError as error:
                replies.append(error)
        return replies

    def load_functions(self) -> None:
        """Begin a server's run: load the functions, whose memory is empty."""

    def unload_functions(self) -> None: ...
    def snapshot(self) -> Any: ...
    def restore(self, snapshot: Any) -> None: ...
    def clear(self) -> None: ...


LAYOUTS: Final = "c", "v", "cv"
"""Newer versions, by the libraries whose layout they raise: the catalogue's, the votes' or both."""
WITH_EVENTS: Final = "e"
"""A newer version that has events which the former one does not know, in the same layouts."""
NEWER: Final = (*LAYOUTS, WITH_EVENTS)


NOTED: Final = (
    (
        "'log', args[1], 'offset', whole(range.till))\n",
        "'log', args[1], 'offset', whole(range.till), 'noted', whole(range.till))\n",
    ),
    (
        "local function compare(views, args)\n    local log, offset = position(views)\n",
        "local function compare(views, args)\n    local log, offset = position(views)\n"
        "    local noted = call('HGET', views .. ':position', 'noted')\n"
        "    if noted and tonumber(noted) ~= offset then error('folded by another layout') end\n",
    ),
)
"""How a newer layout tells that code of another one has folded its view."""


@cache
def function_sources(changes: tuple[Change, ...] = (), newer: str = "") -> tuple[bytes, ...]:
    """Return the sources of all libraries, with changes, each of which must be found in one of them.

    Those of a `newer` version have other names, and some another layout, whose views only they fold: they note it.
    """
    codes = []
    for library in libraries():
        code = library.source.split("\n", 1)[1]
        if newer:
            code = code.replace(f"version = '{version()}'", f"version = '{version()}_{newer}'", 1)
        if library.name[0] in newer:
            code = SCHEMA.sub(r"local SCHEMA = 9\1", code)
            for old, new in NOTED:
                assert code.count(old) == 1, f"the functions have not one {old!r}"
                code = code.replace(old, new)
        codes.append(code)
    for old, new in changes:
        assert any(old in code for code in codes), f"the functions have no longer {old!r}"
        codes = [code.replace(old, new) for code in codes]
    return tuple(code.encode() for code in codes)


def of_version(command: tuple[Any, ...], newer: str) -> tuple[Any, ...]:
    """Return a command as a process of a newer version sends it."""
    if newer and command[0] in ("FCALL", "FCALL_RO"):
        return command[0], f"{command[1]}_{newer}", *command[2:]
    return ("FUNCTION", "LOAD", newer) if newer and command[0] == "FUNCTION" else command


class Versions(Backend):
    """A backend with the functions of one version, or of several."""

    host: "SimulatedServer"
    _loaded: set[str]

    def _load(self, newer: str) -> None: ...

    def load_functions(self) -> None:
        for newer in ("", *sorted(self._loaded - {""})):
            self._load(newer)

    def load_version(self, name: str) -> bytes:
        """Reply to `FUNCTION LOAD`, with a newer version or the library's source."""
        newer = name if name in NEWER else ""
        if newer in self._loaded:
            raise hiredis.ReplyError("ERR Library already exists")
        self._load(newer)
        return b"OK"


class MemoryValkey(Versions):
    """Reading and writing are as in Valkey; nothing expires."""

    def __init__(self, changes: tuple[Change, ...] = ()) -> None:
        self._lua = lua.LuaRuntime(encoding=None, register_eval=False, register_builtins=False)
        self._lua.execute("if jit then jit.off() end")  # compiling costs more than the short functions
        self._compile = self._lua.globals()[b"loadstring"]
        self._server = self._compile(SOURCE, b"@memory_valkey.lua")(
            self._lua.table_from(
                {
                    b"now": self._now,
                    b"run": self._run,
                    b"replication": self._replication,
                    b"pace": self._pace,
                    b"sha1hex": lambda text: hashlib.sha1(text).hexdigest().encode(),
                }
            )
        )
        self._fcall: Callable[..., Any] = self._server[b"fcall"]
        self._command: Callable[..., Any] = self._server[b"command"]
        self._loaded = set()
        self._changes = changes
        self._libraries: dict[str, list[Any]] = {}

    def _now(self) -> int:
        return self.host.now_us()

    def _run(self) -> bytes:
        return self.host.run.encode()

    def _replication(self) -> bytes:
        return self.host.replication.encode()

    def _pace(self) -> float:
        return self.host.fold_pace

    def execute(self, command: tuple[Any, ...]) -> Any:
        name, *rest = command
        if name == "FUNCTION":
            return self.load_version(rest[1])
        if name in ("FCALL", "FCALL_RO"):
            function, count, *args = rest
            kind, *reply = self._fcall(_encoded(function), int(count), *map(_encoded, args))
        else:
            kind, *reply = self._command(name.encode(), *map(_encoded, rest))
        if not kind:
            raise hiredis.ReplyError(reply[0].decode())
        return [_decoded(item) for item in reply[1:]] if kind == LIST else _decoded(reply[0])

    def _load(self, newer: str) -> None:
        if newer not in self._libraries:
            sources = function_sources(self._changes, newer)
            self._libraries[newer] = [self._compile(code, b"@library") for code in sources]
        self._loaded.add(newer)
        for library in self._libraries[newer]:
            library()

    def unload_functions(self) -> None:
        self._loaded.clear()
        self._server[b"forget_functions"]()

    def snapshot(self) -> Any:
        return self._server[b"snapshot"]()

    def restore(self, snapshot: Any) -> None:
        self._server[b"restore"](snapshot)

    def clear(self) -> None:
        self._server[b"clear"]()


def _encoded(value: Any) -> bytes:
    if type(value) is bytes:
        return value
    return value.encode() if isinstance(value, str) else repr(value).encode()


def _decoded(reply: Any) -> Any:
    kind = type(reply)
    if kind is bytes or kind is int:
        return reply
    if reply is None or kind is bool:
        return 1 if reply else None
    if kind is float:
        return int(reply)
    if (error := reply[b"err"]) is not None:
        return hiredis.ReplyError(error.decode())
    return [_decoded(item) for item in reply.values()]
