"""The topology of a data directory: decided by its first start, and kept."""

from pathlib import Path
from typing import Any

import pytest

from libs.local_stack.errors import Exit, StackError
from libs.local_stack.settings import StackSettings, Topology

CLUSTERS = {"brokers": 3, "valkey_shards": 3, "valkey_replicas": 2}


def topology(data_dir: Path, **asked: Any) -> Topology:
    given = {"kafka_bootstrap_servers": None, "valkey_url": None, "stack": "native", **asked}
    return Topology.of(StackSettings(data_dir=data_dir, **given), data_dir)


def test_a_directory_keeps_its_topology(tmp_path: Path) -> None:
    assert topology(tmp_path, **CLUSTERS) == Topology(3, 3, 2)
    assert topology(tmp_path) == Topology(3, 3, 2)
    assert topology(tmp_path, brokers=3) == Topology(3, 3, 2)


@pytest.mark.parametrize(
    ("first", "then"), [({}, CLUSTERS), (CLUSTERS, {"brokers": 1}), ({}, {"valkey_shards": 3})]
)
def test_another_topology_is_refused_with_the_ways_out(
    tmp_path: Path, first: dict[str, int], then: dict[str, int]
) -> None:
    made = topology(tmp_path, **first)
    with pytest.raises(StackError, match=r"--data-dir.*--fresh") as refused:
        topology(tmp_path, **then)
    assert (refused.value.code, refused.value.exit_code) == ("other_topology", Exit.BAD_USAGE)
    assert made.options() in refused.value.message
    assert topology(tmp_path) == made


@pytest.mark.parametrize(
    ("asked", "remedy"),
    [
        ({"brokers": 2}, "1 or 3"),
        ({"valkey_shards": 2}, "1 or 3 shards"),
        ({"valkey_replicas": 2}, "--valkey-shards 3"),
        ({"valkey_shards": 3, "valkey_replicas": 1}, "0 or 2"),
        ({"brokers": 3, "stack": "containers"}, "TALLY_STACK=native"),
        ({"brokers": 3, "kafka_bootstrap_servers": "127.0.0.1:9092"}, "TALLY_KAFKA_BOOTSTRAP_SERVERS"),
        ({"valkey_shards": 3, "valkey_url": "redis://127.0.0.1:6379"}, "TALLY_VALKEY_URL"),
    ],
)
def test_a_topology_that_cannot_lose_a_member_is_refused(
    tmp_path: Path, asked: dict[str, Any], remedy: str
) -> None:
    with pytest.raises(StackError, match=remedy):
        topology(tmp_path, **asked)
    assert topology(tmp_path) == Topology()
