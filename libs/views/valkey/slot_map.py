"""The map of a cluster's slots, as its servers report it."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from redis.asyncio import Redis

from libs.tally.errors import ViewsUnavailable
from libs.views.valkey.connection import open_connection

ASKED: Final = 5
"""Servers that are asked for the map at once."""
ANSWER_S: Final = 1.0
"""Seconds to wait for their answers."""

Address = tuple[str, int]
"""Host and port."""
Ranges = tuple[tuple[int, int], ...]


class SlotMap(NamedTuple):
    """The ranges of slots of each primary, and all `servers`, replicas too."""

    owners: Mapping[Address, Ranges]
    servers: frozenset[Address]


async def read_slot_map(servers: Sequence[Address], connect: Callable[[Address], Redis]) -> SlotMap | None:
    """Return the map that most of the first `ASKED` servers report; None if none responds in time.

    Ends as soon as more than half of them agree: a server that hangs, or is cut off from the others and reports
    an old map, decides nothing then.
    """
    asked = servers[:ASKED]
    tasks = [asyncio.ensure_future(_ask(address, connect)) for address in asked]
    reports = Counter[tuple[tuple[Address, Ranges], ...]]()
    known = frozenset[Address]()
    try:
        for answered in asyncio.as_completed(tasks, timeout=ANSWER_S):
            try:
                found = await answered
            except (OSError, ViewsUnavailable):
                continue
            reports[tuple(sorted(found.owners.items()))] += 1
            known |= found.servers
            if 2 * max(reports.values()) > len(asked):
                break
    except TimeoutError:
        pass
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if not reports:
        return None
    [(owners, _)] = reports.most_common(1)
    return SlotMap(dict(owners), known)


async def _ask(address: Address, connect: Callable[[Address], Redis]) -> SlotMap:
    connection = await open_connection(connect(address))
    try:
        return _parsed(await connection.execute("CLUSTER", "SLOTS"), address)
    finally:
        connection.abort("the map is read")


def _parsed(reply: Sequence[Any], asked: Address) -> SlotMap:
    """Parse CLUSTER SLOTS; a server without a known name has the host of the one that was asked."""
    owners: dict[Address, list[tuple[int, int]]] = {}
    servers: set[Address] = set()
    for first, last, *nodes in reply:
        places = [((host or b"").decode() or asked[0], int(port)) for host, port, *_ in nodes]
        servers.update(places)
        owners.setdefault(places[0], []).append((first, last))
    return SlotMap({address: tuple(sorted(ranges)) for address, ranges in owners.items()}, frozenset(servers))
