"""Simulated servers of the views, and the client of a simulated process.

A server executes the shipped functions (`memory_valkey.py`, or a real Valkey). It restarts, loses its last writes
by a promotion, comes back with older data or with none, freezes, and its clock is wrong. Requests and replies take
time and may be lost: then the outcome is unknown to the client, as in `libs/views/valkey/client.py`.
"""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from contextvars import Context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import hiredis

from libs.tally.errors import ViewsUnavailable
from libs.views.valkey.client import MAX_CONNECTIONS, TIMEOUT_S, Shard, not_sent
from libs.views.valkey.connection import FUNCTION_MISSING, NO_ANSWER, _error_of
from libs.views.valkey.function_loading import _load_missing
from libs.views.valkey.hash_tags import SLOTS, slot_of
from tests.simulation.faults import Streams
from tests.simulation.memory_valkey import Backend, of_version
from tests.simulation.virtual_loop import BEGIN_S, SimulatedProcess, VirtualLoop, set_result
from tests.support.clients.intercepted_valkey import plain_name

if TYPE_CHECKING:
    from tests.simulation.deployment import Deployment


class SimulatedServer:
    """One server: a shard of a cluster, or the only one."""

    def __init__(self, number: int, loop: VirtualLoop, streams: Streams, note: Callable[[str], None]) -> None:
        self.name = f"valkey {number}"
        self.loop = loop
        self.process = loop.process(self.name)
        self.run = self.replication = ""
        self.life = 0
        """Number of this run of the server: connections of earlier ones are lost."""
        self.changes = 0
        """Number of calls and restarts that may have changed what the server replies."""
        self.fold_pace = 0.0
        """Seconds of the processor's time between two looks at its clock in the current call."""
        self.is_up = True
        self.backend: Backend
        self._streams = streams
        self._rng = streams[f"{self.name}: ids"]
        self._folds = streams[f"{self.name}: folds"]
        self._note = note

    def begin(self, backend: Backend) -> None:
        self.backend = backend
        backend.clear()
        backend.unload_functions()
        self._new_run(is_other=True)

    def now_us(self) -> int:
        return round((BEGIN_S + self.loop.now + self.process.clock_ahead_s) * 1_000_000)

    def _new_run(self, *, is_other: bool) -> None:
        """Begin another run: of another server, or of the same one."""
        self.life += 1
        self.changes += 1
        self.run = f"{self._rng.getrandbits(40):010x}"
        if is_other:
            self.replication = f"{self._rng.getrandbits(40):010x}"
        self.backend.load_functions()

    def begin_call(self) -> None:
        """Choose the pace of a call: sometimes a fold takes so long that it ends early."""
        self.fold_pace = self._folds.choice((0.0, 0.0, 0.0004, 0.002))

    def execute(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return the replies, errors as values."""
        self.changes += any(command[0] != "FCALL_RO" for command in commands)
        return self.backend.execute_all(commands)

    # faults

    def stop(self) -> None:
        """Lose all connections; refuse new ones until `restart`."""
        self.is_up = False
        self.life += 1

    def restart(self, data: Any = None, *, is_other: bool, is_empty: bool = False) -> None:
        """Come back with what was there, with older `data` or with none, as the same server or another."""
        if is_empty:
            self.backend.clear()
        elif data is not None:
            self.backend.restore(data)
        self._new_run(is_other=is_other)
        if is_empty:
            self.backend.unload_functions()
        self.is_up = True
        what = "empty" if is_empty else "with its data" if data is None else "with older data"
        self._note(f"{self.name} is back {what}, run {self.run}")


class _Call:
    __slots__ = ("answer", "command", "server")

    def __init__(self, command: tuple[Any, ...], server: SimulatedServer, loop: VirtualLoop) -> None:
        self.command = command
        self.server = server
        self.answer: asyncio.Future[Any] = loop.create_future()

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class SimulatedValkey:
    """A process's client: the calls of a tick are a batch for each server, with up to two batches in flight."""

    def __init__(self, process: SimulatedProcess, world: "Deployment") -> None:
        servers, streams = world.servers, world.streams
        self.is_cluster = len(servers) > 1
        self.world = world
        self._process = process
        self._servers = servers
        self._loop = world.loop
        self._delays = streams[f"{process.name}: way to valkey"]
        self._losses = streams[f"{process.name}: lost by valkey"]
        self._waiting: dict[SimulatedServer, list[_Call]] = {}
        self._in_flight = dict.fromkeys(servers, 0)
        self._is_flushing = False
        self._repairs: set[asyncio.Task[None]] = set()
        width = SLOTS // len(servers)
        self._shards = [
            Shard(_OneServer(self, server), [(at * width, (at + 1) * width - 1)])
            for at, server in enumerate(servers)
        ]

    def call(self, *command: Any) -> "asyncio.Future[Any]":
        return self.call_at(self._server(command), *command)

    def call_at(self, server: SimulatedServer, *command: Any) -> "asyncio.Future[Any]":
        call = _Call(command, server, self._loop)
        self._waiting.setdefault(server, []).append(call)
        if not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self._flush, context=Context())
        return call.answer

    async def shards(self) -> Sequence[Shard]:
        return self._shards

    def server_of(self, key: str, /) -> Hashable:
        return self._server_of(key.encode()).name

    async def close(self) -> None:
        """Do nothing."""

    def _server(self, command: tuple[Any, ...]) -> SimulatedServer:
        if not self.is_cluster:
            return self._servers[0]
        key = command[3] if command[0] in ("FCALL", "FCALL_RO") else command[1]
        return self._server_of(key if isinstance(key, bytes) else str(key).encode())

    def _server_of(self, key: bytes) -> SimulatedServer:
        return self._servers[slot_of(key) * len(self._servers) // SLOTS]

    def _flush(self) -> None:
        self._is_flushing = False
        for server, calls in self._waiting.items():
            if calls and self._in_flight[server] < MAX_CONNECTIONS:
                self._waiting[server] = []
                self._send(server, calls)

    def _send(self, server: SimulatedServer, calls: list[_Call]) -> None:
        live = [call for call in calls if not call.answer.done()]
        if not live:
            return
        if not server.is_up:
            for call in live:
                call.fail(not_sent("connection refused"))
            return
        self._in_flight[server] += 1
        batch = _Batch(self, server, live, server.life)
        self._loop.deliver(self._process, TIMEOUT_S, batch.end, f"no answer within {TIMEOUT_S:g} s")
        if self._lost():
            self._loop.deliver(self._process, self._delay(), batch.end, "connection reset")
        else:
            self._loop.deliver(server.process, self._delay(), batch.arrive)

    def _delay(self) -> float:
        rng = self._delays
        return rng.uniform(0.0001, 0.002) if rng.random() < 0.95 else rng.uniform(0.002, 0.2)

    def _lost(self) -> bool:
        loss = self.world.faults.message_loss
        return loss > 0 and self._losses.random() < loss

    def _freed(self, server: SimulatedServer) -> None:
        self._in_flight[server] -= 1
        if self._waiting.get(server):
            self._flush()

    def _answer(self, call: _Call, reply: Any) -> None:
        if isinstance(reply, ViewsUnavailable):
            call.fail(reply)
            return
        if not isinstance(reply, hiredis.ReplyError):
            set_result(call.answer, reply)
            return
        text = str(reply)
        call.fail(_error_of(text.partition(" ")[0], text))
        if text == FUNCTION_MISSING and not self._repairs:
            repair = self._loop.create_task(self._repair(call.server), context=Context())
            self._repairs.add(repair)
            repair.add_done_callback(self._repairs.discard)

    async def _repair(self, server: SimulatedServer) -> None:
        try:
            await _load_missing(_OneServer(self, server))
        except ViewsUnavailable:
            return


@dataclass(slots=True, eq=False)
class _Batch:
    """Calls on their way to one server and back. They end once: answered, or with an unknown outcome."""

    _client: SimulatedValkey
    _server: SimulatedServer
    _calls: list[_Call]
    _life: int
    """Of the server when they were sent."""
    _is_over: bool = False

    def arrive(self) -> None:
        """Execute at the server, in order, unless it was restarted meanwhile."""
        client, server = self._client, self._server
        if server.life != self._life or not server.is_up:
            client._loop.deliver(client._process, client._delay(), self.end, "connection lost")
            return
        newer = client._process.newer
        replies = server.execute([of_version(call.command, newer) for call in self._calls])
        for call in self._calls:
            if call.command[0] in ("FCALL", "FCALL_RO"):
                client.world.moment(plain_name(call.command[1]), client._process)
        if client._lost():
            client._loop.deliver(client._process, client._delay(), self.end, "connection lost")
        else:
            client._loop.deliver(client._process, client._delay(), self.answer, replies)

    def answer(self, replies: list[Any]) -> None:
        if self._is_over:
            return
        self._is_over = True
        for call, reply in zip(self._calls, replies, strict=True):
            self._client._answer(call, reply)
        self._client._freed(self._server)

    def end(self, cause: str) -> None:
        """Fail all calls: what became of them is unknown."""
        self.answer([ViewsUnavailable(NO_ANSWER, retry_after_s=1, cause=cause) for _ in self._calls])


@dataclass(frozen=True)
class _OneServer:
    """A `Valkey` whose calls go to one server of a cluster."""

    _client: SimulatedValkey
    _server: SimulatedServer
    is_cluster: ClassVar = False

    def call(self, *command: Any) -> "asyncio.Future[Any]":
        return self._client.call_at(self._server, *command)

    async def shards(self) -> Sequence[Shard]:
        return [Shard(self, [(0, SLOTS - 1)])]

    def server_of(self, _: str, /) -> Hashable:
        return self._server.name
