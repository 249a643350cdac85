"""Client of a Valkey Cluster: one coalescing client for each shard, and the map of slots that chooses it."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextvars import Context
from functools import lru_cache, partial
from itertools import groupby
from typing import Any, Final

from hiredis import pack_command
from redis.asyncio import Redis

from libs.views.valkey.client import Coalescer, Shard, Valkey, not_sent
from libs.views.valkey.connection import IN_FUNCTION, Call
from libs.views.valkey.hash_tags import SLOTS, slot_of
from libs.views.valkey.slot_map import Address, SlotMap, read_slot_map

RETRY_S: Final = 0.05
"""Interval at which a call is sent again that a server may soon answer."""
DIRECT_REDIRECTS: Final = 2
"""Redirects that are followed at once; further ones after `RETRY_S`: two servers may each name the other."""
REFRESH_S: Final = 0.2
"""Minimum interval between refreshes of the map."""
KEYLESS: Final = frozenset({"CLUSTER", "CONFIG", "FUNCTION", "INFO", "PING", "SCAN", "TIME"})
"""Commands without a key, which one shard answers for itself."""
KEY_AT: Final = {"FCALL": 3, "FCALL_RO": 3, "MEMORY": 2, "OBJECT": 2}
"""Position of the key in the commands where it is not the first argument."""
CALLS_FUNCTION: Final = (b"$5\r\nFCALL\r\n", b"$8\r\nFCALL_RO\r\n")
STALE_MAP: Final = frozenset({"CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY"})
"""Refusals after which another server may have taken over the slot."""

logger = logging.getLogger(__name__)


class ClusterClient:
    """A `ValkeyClient` that sends each call to the primary of its key's slot.

    Only refusals are sent again, and only those that redirect (MOVED, ASK) or soon end (TRYAGAIN, NOREPLICAS),
    within the call's deadline: a refused command certainly had no effect. A shard that hangs or is lost delays no
    other. A primary refuses writes with NOREPLICAS also while its replicas are only busy for some seconds.

    While a slot is moved key by key, its calls of functions wait until it has been moved: the keys of a partition
    are named by one that does not exist itself, so either server would find a part of them only. Slots moved
    atomically (CLUSTER MIGRATESLOTS) have no such time.
    """

    is_cluster: Final = True

    def __init__(
        self,
        seeds: Sequence[Address],
        connect: Callable[[Address], Redis],
        repair: Callable[[Valkey], Awaitable[None]] | None = None,
    ) -> None:
        """Find the shards by any of `seeds`; `connect` and `repair` are as of `Coalescer`, for each server."""
        self._connect = connect
        self._repair = repair
        self._seeds = list(seeds)
        self._nodes: dict[Address, Coalescer] = {}
        self._map = SlotMap({}, frozenset(seeds))
        self._owners: list[Address] = [self._seeds[0]] * SLOTS
        """Until the map is read, any server: it redirects to the right one."""
        self._refreshing: asyncio.Task[None] | None = None
        self._refreshed_at = float("-inf")
        self._retiring: set[asyncio.Task[None]] = set()
        self._delayed: dict[Call, asyncio.TimerHandle] = {}
        self._closed = False

    def call(self, *command: Any) -> "asyncio.Future[Any]":
        """Send a command to the primary of its key, or to any if it has none."""
        name = command[0]
        if name in KEYLESS:
            return self._node(self._owners[0]).send(command, 0)
        slot = _slot(command[KEY_AT.get(name, 1)])
        return self._node(self._owners[slot]).send(command, slot)

    async def shards(self) -> Sequence[Shard]:
        """Return the present primaries and their slots. Raises `ViewsUnavailable` if no server responds."""
        await self._refresh()
        if not self._map.owners:
            raise not_sent("no server of the cluster responds")
        return [Shard(self._node(address), ranges) for address, ranges in sorted(self._map.owners.items())]

    def server_of(self, key: str) -> Hashable:
        """Return the address of the primary that holds the key, as far as known."""
        return self._owners[_slot(key)]

    async def close(self) -> None:
        """Wait for queued calls and those in flight, then close the connections; later calls fail."""
        while delayed := [call.answer for call in self._delayed if not call.answer.done()]:
            await asyncio.wait(delayed)
        self._closed = True
        tasks = [*self._retiring, *([self._refreshing] if self._refreshing is not None else [])]
        await asyncio.gather(*(node.close() for node in self._nodes.values()))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def suspect(self) -> None:
        """Refresh the map: a server does not respond."""
        self._refresh_soon()

    def _redirect(self, address: Address, call: Call, error: str) -> bool:
        """Send a call again that the server at `address` has refused, if another or it may soon answer."""
        code, _, rest = error.partition(" ")
        if IN_FUNCTION in error:
            return False
        if code == "MOVED":
            slot, target = _target(rest, address)
            self._owners[slot] = target
            self._refresh_soon()
            self._send_again(call)
        elif code == "ASK" and not _calls_function(call):
            self._ask(call, _target(rest, address)[1])
        elif code in ("ASK", "TRYAGAIN", "NOREPLICAS"):
            self._refresh_soon()
            self._send_again(call._replace(redirects=DIRECT_REDIRECTS))
        else:
            if code in STALE_MAP:
                self._refresh_soon()
            return False
        return True

    def _send_again(self, call: Call) -> None:
        again = call._replace(redirects=call.redirects + 1)
        if again.redirects <= DIRECT_REDIRECTS:
            self._enqueue(again)
        else:
            loop = asyncio.get_running_loop()
            self._delayed[again] = loop.call_later(RETRY_S, self._enqueue, again)

    def _enqueue(self, call: Call) -> None:
        self._delayed.pop(call, None)
        if call.answer.done():
            return
        if asyncio.get_running_loop().time() >= call.deadline:
            call.fail(not_sent("the cluster refused it until its deadline"))
        else:
            self._node(self._owners[max(call.slot, 0)]).enqueue(call)

    def _ask(self, call: Call, target: Address) -> None:
        """Send a command with one key to the server that its slot is being moved to."""
        ignored: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        ignored.add_done_callback(lambda done: done.cancelled() or done.exception())
        node = self._node(target)
        node.enqueue(Call(pack_command(("ASKING",)), ignored, call.deadline))
        node.enqueue(call._replace(redirects=call.redirects + 1))

    def _node(self, address: Address) -> Coalescer:
        node = self._nodes.get(address)
        if node is None:
            router = _NodeRouter(self, partial(self._redirect, address))
            node = self._nodes[address] = Coalescer(self._connect(address), self._repair, router)
        return node

    def _refresh_soon(self) -> None:
        """Refresh the map in the background, unless that is in progress."""
        if self._refreshing is None and not self._closed:
            task = asyncio.get_running_loop().create_task(self._refresh_later(), context=Context())
            self._refreshing = task
            task.add_done_callback(self._refreshed)

    def _refreshed(self, task: asyncio.Task[None]) -> None:
        self._refreshing = None
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("reading the cluster's slots failed", exc_info=error)

    async def _refresh_later(self) -> None:
        early = self._refreshed_at + REFRESH_S - asyncio.get_running_loop().time()
        if early > 0:
            await asyncio.sleep(early)
        await self._refresh()

    async def _refresh(self) -> None:
        known = [*self._map.servers, *self._seeds]
        random.shuffle(known)
        found = await read_slot_map(list(dict.fromkeys(known)), self._connect)
        self._refreshed_at = asyncio.get_running_loop().time()
        if found is not None and not self._closed:
            self._use(found)

    def _use(self, found: SlotMap) -> None:
        """Take over a map: calls not sent yet go to the new primaries, those in flight are left to end."""
        self._map = found
        for address, ranges in found.owners.items():
            for first, last in ranges:
                self._owners[first : last + 1] = [address] * (last + 1 - first)
        in_use = {address for address, _ in groupby(self._owners)}
        for address in self._nodes.keys() - found.owners.keys() - in_use:
            self._retire(self._nodes.pop(address))
        for address, node in list(self._nodes.items()):
            for call in node.take_waiting():
                self._route_waiting(address, node, call)

    def _route_waiting(self, address: Address, node: Coalescer, call: Call) -> None:
        if call.slot < 0 or self._owners[call.slot] == address:
            node.enqueue(call)
        else:
            self._enqueue(call)

    def _retire(self, node: Coalescer) -> None:
        for call in node.take_waiting():
            self._enqueue(call)
        task = asyncio.get_running_loop().create_task(node.close(), context=Context())
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)


class _NodeRouter:
    """The cluster as `Router` of one of its servers."""

    def __init__(self, cluster: ClusterClient, redirect: Callable[[Call, str], bool]) -> None:
        self.suspect = cluster.suspect
        self.redirect = redirect


@lru_cache(maxsize=4096)
def _slot(key: str | bytes) -> int:
    return slot_of(key if isinstance(key, bytes) else key.encode())


def _calls_function(call: Call) -> bool:
    return call.packed[:24].partition(b"\r\n")[2].startswith(CALLS_FUNCTION)


def _target(rest: str, asked: Address) -> tuple[int, Address]:
    """Return slot and server of a redirect; a server without a name has the host of the one that was asked."""
    slot, _, place = rest.partition(" ")
    host, _, port = place.rpartition(":")
    return int(slot), (host or asked[0], int(port))
