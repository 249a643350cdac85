"""A real Valkey as a simulated server: its functions, in a database of its own, with the clock of the simulation.

Three things are not its own: TIME, the ids in INFO and the processor's clock, since a function must see those of
the simulation. They are read from keys that each call sets before.
"""

import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import urlsplit

import hiredis

from libs.local_stack.child_process import Reaper
from libs.local_stack.ports import free_ports
from libs.local_stack.valkey import NativeValkey
from libs.views.valkey.function_libraries import libraries, version
from tests.simulation.memory_valkey import FUNCTION_MISSING, NEWER, Backend, Change, Versions, function_sources
from tests.simulation.simulated_valkey import SimulatedServer

CALL: Final = "local function call(...) return redis.call(...) end"
SIMULATED: Final = """
local os, call
do
  local last, number = '', 0
  os = { clock = function()
    local this = redis.call('GET', 'host:call')
    if this ~= last then last, number = this, 0 end
    number = number + 1
    return number * redis.call('GET', 'host:pace')
  end }
  call = function(command, ...)
    if command == 'TIME' then
      local now = tonumber(redis.call('GET', 'host:now'))
      local seconds = math.floor(now / 1000000)
      return { string.format('%.0f', seconds), string.format('%.0f', now - seconds * 1000000) }
    end
    if command == 'INFO' and ... == 'server' then return 'run_id:' .. redis.call('GET', 'host:run') end
    if command == 'INFO' then return 'master_replid:' .. redis.call('GET', 'host:replication') end
    return redis.call(command, ...)
  end
end
"""
"""One local more than it replaces: a function of Lua has 200 at most, and the votes' functions nearly as many."""


@asynccontextmanager
async def a_valkey() -> AsyncIterator[str]:
    """Start a server that writes no file; yield the URL of its Unix socket."""
    with TemporaryDirectory() as name:
        folder, reaper, (port,) = Path(name), Reaper(), free_ports(1)
        options = {"appendonly": "no", "unixsocket": folder / "socket"}
        server = NativeValkey(port, folder, folder / "log", reaper, further=options)
        await server.start()
        try:
            yield f"unix://default:{urlsplit(server.address).password}@{folder}/socket"
        finally:
            await server.kill()
            reaper.close()


class RealValkey(Versions):
    """One database of a server."""

    def __init__(self, url: str, database: int, changes: tuple[Change, ...] = ()) -> None:
        parts = urlsplit(url)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(parts.path)
        self._reader = hiredis.Reader()
        self._suffix = f"_db{database}"
        self._calls = 0
        self._changes = changes
        self._loaded = set()
        self._ask(("AUTH", parts.username, parts.password), ("SELECT", database))

    def execute(self, command: tuple[Any, ...]) -> Any:
        name, *rest = command
        if name == "FUNCTION":
            return self.load_version(rest[1])
        if name not in ("FCALL", "FCALL_RO"):
            return self._ask(command)
        if not self._has(rest[0]):
            raise hiredis.ReplyError(FUNCTION_MISSING)
        return self._ask(*self._call(command))

    def execute_all(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        if not all(name in ("FCALL", "FCALL_RO") and self._has(rest[0]) for name, *rest in commands):
            return super().execute_all(commands)
        sent: list[tuple[Any, ...]] = []
        for command in commands:
            self.host.begin_call()
            sent += self._call(command)
        return self._replies(sent)[1::2]

    def _has(self, function: str) -> bool:
        last = function.rpartition("_")[2]
        return (last if last in NEWER else "") in self._loaded

    def _call(self, command: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the commands that set what the function sees, and that call it."""
        self._calls += 1
        host = self.host
        state = "host:call", self._calls, "host:now", host.now_us(), "host:pace", host.fold_pace
        return ("MSET", *state), (command[0], command[1] + self._suffix, *command[2:])

    def _load(self, newer: str) -> None:
        self._loaded.add(newer)
        self._ask(*(("FUNCTION", "LOAD", "REPLACE", source) for source in self._sources(newer)))
        self._ask(("MSET", "host:run", self.host.run, "host:replication", self.host.replication))

    def _sources(self, newer: str) -> Iterator[str]:
        for library, code in zip(libraries(), function_sources(self._changes, newer), strict=True):
            text = code.decode()
            assert text.count(CALL) == 1
            head = f"#!lua name={library.loaded_name}{newer}{self._suffix}\n"
            text = text.replace(CALL, SIMULATED)
            number = version() + (f"_{newer}" if newer else "")
            yield head + text.replace(f"version = '{number}'", f"version = '{number}{self._suffix}'", 1)

    def unload_functions(self) -> None:
        self._loaded.clear()

    def snapshot(self) -> Any:
        keys = [key for key in self._ask(("KEYS", "*")) if not key.startswith(b"host:")]
        return dict(zip(keys, self._ask_all([("DUMP", key) for key in keys]), strict=True))

    def restore(self, snapshot: Any) -> None:
        self.clear()
        self._ask_all([("RESTORE", key, 0, dump) for key, dump in snapshot.items()])

    def clear(self) -> None:
        self._ask(("FLUSHDB",))

    def close(self) -> None:
        self._socket.close()

    def _ask(self, *commands: tuple[Any, ...]) -> Any:
        """Send commands at once; return the last reply, raise the first error."""
        return self._ask_all(list(commands))[-1]

    def _ask_all(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        replies = self._replies(commands)
        for reply in replies:
            if isinstance(reply, hiredis.ReplyError):
                raise reply
        return replies

    def _replies(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        if not commands:
            return []
        self._socket.sendall(b"".join(hiredis.pack_command(command) for command in commands))
        replies: list[Any] = []
        while len(replies) < len(commands):
            reply = self._reader.gets()
            if reply is False:
                self._reader.feed(self._socket.recv(1 << 20))
                continue
            replies.append(reply)
        return replies


class Both(Backend):
    """A model and a real server, which must reply alike."""

    def __init__(self, model: Any, real: RealValkey) -> None:
        self._each = model, real

    @property
    def host(self) -> SimulatedServer:
        return self._each[1].host

    @host.setter
    def host(self, host: SimulatedServer) -> None:
        for backend in self._each:
            backend.host = host

    def execute(self, command: tuple[Any, ...]) -> Any:
        replies = []
        for backend in self._each:
            try:
                replies.append(backend.execute(command))
            except hiredis.ReplyError as error:
                replies.append(hiredis.ReplyError(str(error).partition(" script: ")[0]))
        model, real = replies
        assert _plain(model) == _plain(real), f"{command}: the model replies {model}, Valkey {real}"
        if isinstance(model, hiredis.ReplyError):
            raise real
        return model

    def load_functions(self) -> None:
        for backend in self._each:
            backend.load_functions()

    def unload_functions(self) -> None:
        for backend in self._each:
            backend.unload_functions()

    def snapshot(self) -> Any:
        return [backend.snapshot() for backend in self._each]

    def restore(self, snapshot: Any) -> None:
        for backend, its in zip(self._each, snapshot, strict=True):
            backend.restore(its)

    def clear(self) -> None:
        for backend in self._each:
            backend.clear()


def _plain(reply: Any) -> Any:
    """Return a reply to be compared: errors by their text, lists and packed lists in any order.

    The order of a hash's fields is not defined, and some replies list them.
    """
    if isinstance(reply, hiredis.ReplyError):
        return str(reply).partition(" script: ")[0]
    if isinstance(reply, list):
        return sorted(repr(_plain(item)) for item in reply)
    return sorted(reply) if isinstance(reply, bytes) else reply
