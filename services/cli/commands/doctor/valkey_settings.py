"""Checks Valkey's settings on which the service's promises depend, on each shard."""

import asyncio
from collections.abc import Iterator, Sequence

from libs.views.valkey.client import Shard, read_info
from libs.views.valkey.connection import NotPermitted
from libs.views.valkey.failover_settings import LAG, NODE_TIMEOUT, WRITE, lag_problem, read_config
from libs.views.valkey.hash_tags import SLOTS
from libs.views.valkey.settings import ValkeySettings
from services.cli.commands.doctor.finding import Finding, fine, problem

NAME = "Valkey's settings"
REPLICAS = 2
"""Replicas of a shard where writes wait for one: of one replica, a promoted one has none and refuses writes."""
WANTED = ("maxmemory-policy", "appendonly", "cluster-require-full-coverage", WRITE, LAG, NODE_TIMEOUT)
LONGEST_NODE_TIMEOUT_MS = 5_000
"""A failover begins after it, and votes of the shard wait for it."""


async def check_valkey_settings(shards: Sequence[Shard], silent: Sequence[Shard] = ()) -> list[Finding]:
    """Return each problem once, or that there is none; `silent` shards do not answer."""
    found = [finding for each in await asyncio.gather(*map(_of_shard, shards)) for finding in each]
    found += _uncovered([*shards, *silent])
    distinct = list(dict.fromkeys(found))
    return distinct or [fine(NAME, f"as required on {len(shards)} {'shard' if len(shards) == 1 else 'shards'}")]


async def _of_shard(shard: Shard) -> list[Finding]:
    try:
        settings = await read_config(shard.valkey, *WANTED)
    except NotPermitted:
        return [problem(NAME, "cannot be read by this user", "permit `config|get` (deploy/security/valkey.acl)")]
    replication = await read_info(shard.valkey, "replication")
    cluster = await read_info(shard.valkey, "cluster")
    is_clustered = cluster.get("cluster_enabled") == "1"
    return list(_problems(settings, int(replication["connected_slaves"]), is_clustered, shard.slots))


def _problems(
    settings: dict[str, str], replicas: int, is_clustered: bool, slots: Sequence[tuple[int, int]]
) -> Iterator[Finding]:
    policy = settings["maxmemory-policy"]
    if policy != "noeviction":
        detail = f"maxmemory-policy is {policy}: when memory is full, votes would be deleted from the counts"
        yield problem(NAME, detail, "set maxmemory-policy noeviction")
    if settings["appendonly"] != "yes":
        detail = "appendonly is no: after a restart of Valkey, votes wait until all of the log is processed again"
        yield problem(NAME, detail, "set appendonly yes")
    if replicas and (unsafe := lag_problem(settings, is_clustered, ValkeySettings().valkey_failover_ms)):
        yield problem(NAME, unsafe, "see deploy/valkey-cluster.md")
    if is_clustered and replicas and int(settings[NODE_TIMEOUT]) > LONGEST_NODE_TIMEOUT_MS:
        detail = f"cluster-node-timeout is {settings[NODE_TIMEOUT]}: a lost shard's votes wait that long"
        yield problem(NAME, detail, f"set cluster-node-timeout {LONGEST_NODE_TIMEOUT_MS}")
    wait_for = int(settings[WRITE])
    if wait_for and replicas < REPLICAS:
        detail = f"a primary has {replicas} replicas: after a failover, its successor could not write"
        yield problem(NAME, detail, f"run {REPLICAS} replicas of each primary")
    if is_clustered and settings["cluster-require-full-coverage"] != "no":
        detail = "cluster-require-full-coverage is yes: one lost shard would stop all others"
        yield problem(NAME, detail, "set cluster-require-full-coverage no")
    if is_clustered and tuple(slots) == ((0, SLOTS - 1),):
        detail = "the server belongs to a cluster, and TALLY_VALKEY_URL names one server"
        yield problem(NAME, detail, "name at least two of the cluster's servers, comma-separated")


def _uncovered(shards: Sequence[Shard]) -> Iterator[Finding]:
    held = sum(last + 1 - first for shard in shards for first, last in shard.slots)
    if held < SLOTS:
        detail = f"{SLOTS - held:,} slots belong to no shard: their partitions are unavailable"
        yield problem(NAME, detail, "assign them with `valkey-cli --cluster fix`", away=True)
