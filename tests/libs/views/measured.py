"""Copies of Valkey's functions that count what each call does, for bounds that hold on a busy machine, too."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from redis import Redis

from libs.views.valkey.function_libraries import libraries
from tests.libs.views.lua_ledger import Direct
from tests.support.clients.intercepted_valkey import plain_name

NAMES = re.compile(r"'(votes|address|catalogue|purchases)(?=[_'])")
COUNTED = """
local done = { work = 0 }
function done.size(value)
  if type(value) == 'string' then return 1 + math.floor(#value / 64) end
  local sum = 1
  if type(value) == 'table' then
    for i = 1, #value do sum = sum + done.size(value[i]) end
  end
  return sum
end
local function call(...)
  local reply = redis.call(...)
  done.work = done.work + done.size({ ... }) + done.size(reply)
  return reply
end
local function pack(value)
  local packed = cmsgpack.pack(value)
  done.work = done.work + #packed / 16
  return packed
end
local function unpack_one(packed)
  done.work = done.work + #packed / 16
  return (cmsgpack.unpack(packed))
end
local function unpack_members(packed, count, at)
  done.work = done.work + count
  return cmsgpack.unpack_limit(packed, count, at)
end
"""
PLAIN = """
local function call(...) return redis.call(...) end
local function pack(value) return cmsgpack.pack(value) end
local function unpack_one(packed) return (cmsgpack.unpack(packed)) end
local function unpack_members(packed, count, at) return cmsgpack.unpack_limit(packed, count, at) end
"""


class Measured(Direct):
    """Calls the copies, and keeps the most work of one call by function.

    Work is the number of inner commands, of their arguments and of the parts of their replies (each 64 bytes of a
    long one), and of each 16 bytes that are packed or unpacked. Of commands it is the size of the reply.
    """

    def __init__(self, redis: Redis, prefix: str) -> None:
        super().__init__(redis, prefix)
        self.worst = defaultdict[str, float](float)

    async def call(self, *command: Any) -> Any:
        reply = await super().call(*command)
        if command[0] not in ("FCALL", "FCALL_RO"):
            self._note(command[0], _size(reply))
            return reply
        name = plain_name(command[1])
        work = self._redis.execute_command("FCALL", f"{self._prefix}{library_of(name)}_work", 0)
        self._note(name, float(work))
        return reply

    def _note(self, name: str, work: float) -> None:
        self.worst[name] = max(self.worst[name], work)

    async def forget(self, namespace: str) -> None:
        """Delete all keys of a namespace."""
        cursor = b"0"
        while True:
            scan = "SCAN", cursor, "MATCH", f"{namespace}:*", "COUNT", 10_000
            cursor, keys = self._redis.execute_command(*scan)
            if keys:
                self._redis.execute_command("UNLINK", *keys)
            if cursor == b"0":
                return

    def functions(self) -> set[str]:
        """Return the names of all functions that the libraries register."""
        listed = self._redis.function_list(library=f"{self._prefix}*")
        names = {function[1].decode() for library in listed for function in library[5]}
        return {plain_name(name).removeprefix(self._prefix) for name in names if not name.endswith("_work")}


@contextmanager
def measured(address: str, prefix: str) -> Iterator[Measured]:
    """Load the copies; no fold is cut short, so that equal calls do equal work."""
    with Redis.from_url(address, protocol=2) as redis:
        redis.response_callbacks.clear()
        loaded = []
        for library in libraries():
            assert PLAIN in library.source
            source = library.source.replace(PLAIN, COUNTED).replace("FOLD_SECONDS = 0.001", "FOLD_SECONDS = 1000")
            source = NAMES.sub(rf"'{prefix}\1", source).replace("#!lua name=", f"#!lua name={prefix}")
            report = "function() local work = done.work; done.work = 0; return tostring(work) end"
            source += f"\nredis.register_function('{prefix}{library.name}_work', {report})"
            redis.function_load(source, replace=True)
            loaded.append(f"{prefix}{library.loaded_name}")
        try:
            yield Measured(redis, prefix)
        finally:
            for name in loaded:
                redis.function_delete(name)


def library_of(function: str) -> str:
    """Return the library of a function without the first word of its name."""
    name = function.partition("_")[0]
    return "votes" if name == "address" else name


def _size(reply: Any) -> int:
    return 1 + sum(map(_size, reply)) if isinstance(reply, list) else 1
