"""TCP proxies of servers' ports that know both processes of a connection, and disturb the bytes between two."""

import asyncio
import math
import os
import socket
import struct
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from random import Random
from typing import Final

LOOPBACK: Final = "127.0.0.1"
PACKET: Final = 1_400
"""Bytes that are held back or lost together."""
MOST_HELD: Final = 256 * 1024
"""Held bytes of a direction of a connection, from which on its sender's buffers fill."""
RETRANSMISSION_S: Final = 0.2
"""Time after which TCP first sends a lost packet again, at its least; doubled each time."""
RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER with which a closed socket sends RST."""
NETLINK_SOCK_DIAG: Final = 4
SOCK_DIAG_BY_FAMILY: Final = 20

Pace = Callable[[int, float, float], float]
"""Returns when bytes pass (loop time), by their number, the present time, and the time when those before pass."""


def held(_: int, __: float, ___: float) -> float:
    """Let nothing pass until the rule ends, as if each packet were lost."""
    return math.inf


def delayed(seconds: float) -> Pace:
    return lambda _, now, last: max(last, now + seconds)


def slow(bytes_per_s: float) -> Pace:
    return lambda size, now, last: max(last, now) + size / bytes_per_s


def lossy(share: float, rng: Random) -> Pace:
    """Lose a share of all packets: those behind a lost one wait for it to be sent again, as TCP shows it."""

    def pace(_: int, now: float, last: float) -> float:
        at, wait_s = now, RETRANSMISSION_S
        while rng.random() < share:
            at, wait_s = at + wait_s, 2 * wait_s
        return max(last, at)

    return pace


class Break(Enum):
    """What happens to connections, other than the pace of their bytes."""

    CUT = auto()
    """They end, and new ones are refused."""
    RESET = auto()
    """Some bytes are followed by half of the next ones, and then both ends receive RST."""
    HALF_OPEN = auto()
    """Those that exist are gone at the receiver, and bytes to it are lost; the sender does not notice."""


RESET_SHARE: Final = 0.2


@dataclass(eq=False)
class Rule:
    """What happens to bytes from a process to another; with its senders and receivers by their names."""

    senders: Collection[str]
    receivers: Collection[str]
    happens: Pace | Break
    held: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Bytes that were held back or lost, by sender and receiver."""
    ended: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Connections that were ended or refused."""
    rng: Random = field(default_factory=lambda: Random(0))

    def covers(self, sender: str, receiver: str) -> bool:
        return sender != receiver and sender in self.senders and receiver in self.receivers

    @property
    def bit(self) -> bool:
        """True if it held back or lost bytes, or ended a connection."""
        return bool(self.held or self.ended)


class End(asyncio.Protocol):
    """An end of a connection through a proxy, with the bytes from it on their way to the other end."""

    other: "End"
    transport: asyncio.Transport

    def __init__(self, name: str = "", accepted: Callable[["End"], None] | None = None) -> None:
        self.name = name
        self.rule: Rule | None = None
        self.is_half_open = False
        self.is_joined = False
        """True once there is a connection at the other end, too."""
        self._accepted = accepted
        self._on_way: deque[tuple[float, bytes]] = deque()
        """Packets and when they pass, in their order; an empty one is the connection's end."""
        self._held = 0
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._has_ended = False
        self._is_full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if self._accepted is not None:
            transport.pause_reading()
            self._accepted(self)

    def data_received(self, data: bytes) -> None:
        if self.rule is None:
            self._pass(data)
        else:
            self._hold(data, self.rule)

    def eof_received(self) -> bool:
        self._end()
        return True

    def connection_lost(self, _: Exception | None) -> None:
        self._end()

    def pause_writing(self) -> None:
        self._is_full = True
        self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        self._is_full = False
        self.other.read_on()

    def read_on(self) -> None:
        """Take more bytes, unless enough wait here or at the other end."""
        if self._held <= MOST_HELD and not self.other._is_full:
            self.transport.resume_reading()

    def follow(self, rule: Rule | None) -> None:
        """Treat the bytes as the rule says, also those on their way."""
        if rule is self.rule or self.is_half_open:
            return
        self.rule = rule
        if self._timer is not None:
            self._timer.cancel()
        on_way, self._on_way, self._held, self._last = self._on_way, deque(), 0, 0.0
        for _, packet in on_way:
            if rule is None:
                self._pass(packet)
            else:
                self._hold(packet, rule)
        self.read_on()

    def forget(self, rule: Rule) -> None:
        """Lose all further bytes, while the other end has no connection any more."""
        self.rule, self.is_half_open = rule, True
        self._on_way.clear()
        self.transport.resume_reading()
        self.other.transport.abort()

    def reset(self) -> None:
        for each in (self, self.other):
            with suppress(OSError):
                each.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            each.transport.abort()

    def _end(self) -> None:
        """Let the other end have the end of the connection when it has all bytes before."""
        if self._has_ended or not self.is_joined or self.other.is_half_open:
            return
        self._has_ended = True
        if self.is_half_open:
            self.transport.abort()
        elif self.rule is None:
            self._pass(b"")
        else:
            self._hold(b"", self.rule)

    def _pass(self, data: bytes) -> None:
        if not data:
            self.transport.close()
            self.other.transport.close()
        elif not self.other.transport.is_closing():
            self.other.transport.write(data)

    def _hold(self, data: bytes, rule: Rule) -> None:
        ends = self.name, self.other.name
        if isinstance(rule.happens, Break):
            self._break(data, rule)
            return
        rule.held[ends] += len(data)
        now = asyncio.get_running_loop().time()
        for at in range(0, len(data) or 1, PACKET):
            packet = data[at : at + PACKET]
            self._last = rule.happens(len(packet), now, self._last)
            self._on_way.append((self._last, packet))
        self._held += len(data)
        if self._held > MOST_HELD:
            self.transport.pause_reading()
        self._release()

    def _break(self, data: bytes, rule: Rule) -> None:
        if self.is_half_open:
            rule.held[self.name, self.other.name] += len(data)
        elif rule.happens is Break.RESET and data and rule.rng.random() < RESET_SHARE:
            rule.ended[self.name, self.other.name] += 1
            self._pass(data[: len(data) // 2])
            self.reset()
        else:
            self._pass(data)

    def _release(self) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
        while self._on_way and self._on_way[0][0] <= loop.time():
            _, packet = self._on_way.popleft()
            self._held -= len(packet)
            self._pass(packet)
        if self._on_way and self._on_way[0][0] < math.inf:
            self._timer = loop.call_at(self._on_way[0][0], self._release)
        if not self.transport.is_closing():
            self.read_on()


@dataclass
class Network:
    """Proxies and the rules in force. `pids` returns the processes by their names; connections from others pass
    undisturbed."""

    pids: Callable[[], Mapping[str, int]] = dict
    _rules: list[Rule] = field(default_factory=list)
    _near: set[End] = field(default_factory=set)
    """The accepted end of each connection."""
    _listeners: list[asyncio.Server] = field(default_factory=list)
    _connecting: set[asyncio.Task[None]] = field(default_factory=set)

    async def open(self, port: int, name: str, host: str = LOOPBACK) -> int:
        """Return the port of a new proxy of the port of the process `name`."""

        def accepted(near: End) -> None:
            connecting = asyncio.create_task(self._connect(near, host, port, name))
            self._connecting.add(connecting)
            connecting.add_done_callback(self._connecting.discard)

        loop = asyncio.get_running_loop()
        listener = await loop.create_server(lambda: End("", accepted), LOOPBACK, 0)
        self._listeners.append(listener)
        return listener.sockets[0].getsockname()[1]

    @contextmanager
    def disturbed(self, *rules: Rule) -> Iterator[None]:
        """Apply rules while the context is open; the first one in force that covers two processes holds."""
        for rule in rules:
            self.begin(rule)
        try:
            yield
        finally:
            for rule in rules:
                self.end(rule)

    def begin(self, rule: Rule) -> None:
        self._rules.append(rule)
        self._apply()
        for sender in [each for each in self._ends() if rule.covers(each.name, each.other.name)]:
            if rule.happens is Break.CUT:
                rule.ended[sender.name, sender.other.name] += 1
                sender.transport.abort()
                sender.other.transport.abort()
            elif rule.happens is Break.HALF_OPEN:
                rule.ended[sender.name, sender.other.name] += 1
                sender.forget(rule)

    def end(self, rule: Rule) -> None:
        self._rules.remove(rule)
        for each in list(self._ends()):
            if each.is_half_open and each.rule is rule:
                each.transport.abort()
        self._apply()

    async def close(self) -> None:
        """End all connections."""
        for listener in self._listeners:
            listener.close()
        for task in self._connecting:
            task.cancel()
        for each in self._ends():
            each.transport.abort()
        await asyncio.gather(*self._connecting, return_exceptions=True)

    def _ends(self) -> Iterator[End]:
        for near in self._near:
            yield near
            yield near.other

    def _apply(self) -> None:
        self._near = {near for near in self._near if not _is_over(near)}
        for each in self._ends():
            each.follow(self._rule(each.name, each.other.name))

    def _rule(self, sender: str, receiver: str) -> Rule | None:
        return next((rule for rule in self._rules if rule.covers(sender, receiver)), None)

    async def _connect(self, near: End, host: str, port: int, name: str) -> None:
        address = near.transport.get_extra_info("peername"), near.transport.get_extra_info("sockname")
        found = owner(address[0][1], address[1][1], self.pids())
        if found is None:
            near.transport.abort()
            return
        near.name = found
        for ends in ((near.name, name), (name, near.name)):
            rule = self._rule(*ends)
            if rule is not None and rule.happens is Break.CUT:
                rule.ended[ends] += 1
                near.transport.abort()
                return
        near.other = far = End(name)
        far.other = near
        try:
            await asyncio.get_running_loop().create_connection(lambda: far, host, port)
        except OSError:
            near.transport.abort()
            return
        near.is_joined = far.is_joined = True
        if near.transport.is_closing() or far.transport.is_closing():
            near.transport.abort()
            far.transport.abort()
            return
        self._near.add(near)
        near.follow(self._rule(near.name, name))
        far.follow(self._rule(name, near.name))
        near.read_on()


@asynccontextmanager
async def open_network(pids: Callable[[], Mapping[str, int]] = dict) -> AsyncIterator[Network]:
    network = Network(pids)
    try:
        yield network
    finally:
        await network.close()


def _is_over(near: End) -> bool:
    return near.transport.is_closing() and near.other.transport.is_closing()


def owner(port: int, peer: int, pids: Mapping[str, int]) -> str | None:
    """Return the name of the process with the connection from `port` to `peer`.

    It is empty for a process without a name, and None where the connection has been closed: a search of all
    processes for it would take so long that members of a cluster, who try again each 2.5 s, never met again.
    """
    inode = _inode(port, peer)
    if not inode:
        return None
    link = f"socket:[{inode}]"
    return next((name for name, pid in pids.items() if _has(pid, link)), "")


def _inode(port: int, peer: int) -> int:
    """Return the inode of the socket with these ports on the loopback interface, by Linux's `sock_diag`.

    /proc/net/tcp has a line for each connection of the machine: with 20,000 of them it takes 0.2 s to read.
    """
    address = socket.inet_aton(LOOPBACK) + bytes(12)
    query = struct.pack("=BBBxI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0xFFF)
    query += struct.pack("!HH", port, peer) + 2 * address + struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
    header = struct.pack("=IHHII", 16 + len(query), SOCK_DIAG_BY_FAMILY, 1, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
        kernel.send(header + query)
        answer = kernel.recv(4096)
    is_found = struct.unpack_from("=H", answer, 4)[0] == SOCK_DIAG_BY_FAMILY
    return struct.unpack_from("=I", answer, 84)[0] if is_found else 0


def _has(pid: int, link: str) -> bool:
    with suppress(OSError):
        for number in reversed(os.listdir(f"/proc/{pid}/fd")):
            with suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{number}") == link:
                    return True
    return False
