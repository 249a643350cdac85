"""Settings by which a primary that is cut off refuses writes before its replica is promoted."""

import pytest

from libs.telemetry.redaction import SecretUrl
from libs.views.valkey.client import Valkey
from libs.views.valkey.failover_settings import (
    LAG,
    NODE_TIMEOUT,
    WRITE,
    FailoverCheck,
    UnsafeFailover,
    lag_problem,
)
from libs.views.valkey.function_loading import open_valkey
from libs.views.valkey.settings import ValkeySettings
from tests.support.servers.valkey_cluster import Cluster, valkey_cluster


@pytest.mark.pure
@pytest.mark.parametrize(
    ("write", "lag", "is_clustered", "failover_ms", "reason"),
    [
        ("1", "3", True, None, None),
        ("1", "4", True, None, "at most 3 is safe"),
        ("1", "0", True, None, "at most 3 is safe"),
        ("0", "3", True, None, "min-replicas-to-write is 0"),
        ("1", "3", True, 4_000, "at most 2 is safe"),
        ("1", "3", False, None, "TALLY_VALKEY_FAILOVER_MS"),
        ("1", "10", False, 30_000, None),
    ],
)
def test_the_lag_must_end_before_a_failover_may_begin(
    write: str, lag: str, is_clustered: bool, failover_ms: int | None, reason: str | None
) -> None:
    found = lag_problem({WRITE: write, LAG: lag, NODE_TIMEOUT: "5000"}, is_clustered, failover_ms)
    assert found is None if reason is None else reason in (found or "")


async def problem_of(valkey: Valkey, **settings: int) -> str:
    try:
        await FailoverCheck(valkey, ValkeySettings().model_copy(update=settings)).check()
    except UnsafeFailover as error:
        return error.message
    return ""


async def config(cluster: Cluster, setting: str, value: object) -> None:
    for node in cluster.nodes[: cluster.shards]:
        await node.command("CONFIG", "SET", setting, value)


@pytest.mark.servers
async def test_each_shard_with_replicas_is_checked_or_its_settings_are_stated() -> None:
    async with valkey_cluster(2, replicas=True, fails_over=False) as cluster:
        valkey = open_valkey(cluster.url)
        assert "min-replicas-to-write is 0" in await problem_of(valkey)
        await config(cluster, WRITE, 1)
        assert await problem_of(valkey) == ""
        await cluster.nodes[1].command("CONFIG", "SET", LAG, 14)
        assert "at most 13 is safe" in await problem_of(valkey)
        cluster.nodes[1].stop()
        assert await problem_of(valkey) == "", "what accepts no votes was waited for"
        cluster.nodes[1].resume()
        for node in cluster.nodes:
            await node.command("ACL", "SETUSER", "gateway", "on", ">secret", "~*", "+@all", "-config|get")
        limited = open_valkey(SecretUrl(cluster.url.replace("redis://", "redis://gateway:secret@")))
        assert "have to state them" in await problem_of(limited)
        stated = {"valkey_min_replicas_max_lag_s": 3, "valkey_failover_ms": 4_000}
        assert "at most 2 is safe" in await problem_of(limited, **stated)
        assert await problem_of(limited, **stated | {"valkey_failover_ms": 5_000}) == ""
        for client in (valkey, limited):
            await client.close()


@pytest.mark.servers
async def test_a_server_without_replicas_needs_no_settings(valkey: Valkey) -> None:
    assert await problem_of(valkey) == ""
