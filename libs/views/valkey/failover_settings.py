"""Checks that a primary refuses writes before one of its replicas can be promoted.

A primary that is cut off from its replicas, but not from gateways and Kafka, goes on confirming votes until it
notices. If a replica was promoted before, and the projectors appended a fence there, these votes never count. So
`min-replicas-max-lag`, after which a primary refuses writes, has to end before any failover begins. That rests on
the rates of two machines' clocks over these seconds.
"""

import asyncio
import time
from typing import Final

from libs.tally.errors import ViewsUnavailable
from libs.views.valkey.client import Shard, Valkey, read_info
from libs.views.valkey.connection import NotPermitted
from libs.views.valkey.settings import ValkeySettings

WRITE, LAG, NODE_TIMEOUT = "min-replicas-to-write", "min-replicas-max-lag", "cluster-node-timeout"
ROUNDED_S: Final = 2
"""Seconds by which a primary may exceed its lag: it counts whole seconds, once a second."""
EVERY_S: Final = 10.0
WAIT_S: Final = 1.0
"""Time for all shards' answers: those of a lost shard are not waited for, as it accepts no votes."""


class UnsafeFailover(ViewsUnavailable):
    """A primary that is cut off could confirm votes that never count."""


class FailoverCheck:
    """Checks the settings of all shards, every `EVERY_S` once they are right."""

    def __init__(self, valkey: Valkey, settings: ValkeySettings) -> None:
        """`settings` state what the servers cannot tell."""
        self._valkey = valkey
        self._settings = settings
        self._right_until = float("-inf")

    async def check(self) -> None:
        """Raise `UnsafeFailover`, for operators, unless every shard that answers has the right settings."""
        if time.monotonic() < self._right_until:
            return
        tasks = [asyncio.create_task(self._problem(shard)) for shard in await self._valkey.shards()]
        done, late = await asyncio.wait(tasks, timeout=WAIT_S)
        for task in late:
            task.cancel()
        for task in done:
            if isinstance(error := task.exception(), ViewsUnavailable):
                continue
            if error is not None:
                raise error
            if problem := task.result():
                raise UnsafeFailover(f"{problem} (deploy/valkey-cluster.md)", retry_after_s=1)
        self._right_until = time.monotonic() + EVERY_S

    async def _problem(self, shard: Shard) -> str | None:
        if int((await read_info(shard.valkey, "replication"))["connected_slaves"]) == 0:
            return None
        try:
            found = await read_config(shard.valkey, WRITE, LAG, NODE_TIMEOUT)
        except NotPermitted:
            stated = self._settings.valkey_min_replicas_max_lag_s, self._settings.valkey_failover_ms
            if None in stated:
                return (
                    "this user may not read Valkey's settings: TALLY_VALKEY_MIN_REPLICAS_MAX_LAG_S and "
                    "TALLY_VALKEY_FAILOVER_MS have to state them"
                )
            found = {WRITE: "1", LAG: str(stated[0])}
        is_clustered = (await read_info(shard.valkey, "cluster")).get("cluster_enabled") == "1"
        return lag_problem(found, is_clustered, self._settings.valkey_failover_ms)


def lag_problem(found: dict[str, str], is_clustered: bool, failover_ms: int | None) -> str | None:
    """Return what is wrong with the settings of a server that has replicas, or None.

    `failover_ms` is the time that a primary must be away before a replica is promoted; on a cluster, by default
    that of its servers.
    """
    if failover_ms is None and is_clustered:
        failover_ms = int(found[NODE_TIMEOUT])
    if int(found[WRITE]) == 0:
        return f"{WRITE} is 0: a primary that is cut off from its replicas could confirm votes"
    if failover_ms is None:
        return "TALLY_VALKEY_FAILOVER_MS has to state when a replica may be promoted"
    lag_s = int(found[LAG])
    if lag_s == 0 or (lag_s + ROUNDED_S) * 1000 > failover_ms:
        return (
            f"{LAG} is {lag_s} and a failover may begin after {failover_ms:,} ms: a primary that is cut off could "
            f"confirm votes after its replica was promoted; at most {failover_ms // 1000 - ROUNDED_S} is safe"
        )
    return None


async def read_config(server: Valkey, *names: str) -> dict[str, str]:
    """Return settings of a server. Raises `NotPermitted` and `ViewsUnavailable`."""
    flat = await server.call("CONFIG", "GET", *names)
    return dict(zip(*(map(bytes.decode, flat[at::2]) for at in range(2)), strict=True))
