"""The members of a stack of several brokers and shards, by what they do for a partition of the votes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import CompactArray, CompactString, Int16, Int32, Int64, Schema, TaggedFields
from redis.asyncio import Redis
from redis.exceptions import RedisError

from libs.deployment.deployment import Deployment
from libs.kafka.topics import open_admin
from libs.local_stack.supervisor import Supervisor
from libs.views.valkey.hash_tags import key_base, slot_of


@dataclass
class Members:
    """Names of processes, as the supervisor has them; `announced`: servers' ports by those that they announce."""

    stack: Supervisor
    deployment: Deployment
    announced: Mapping[int, int] = field(default_factory=dict)

    def slot(self, partition: int = 0) -> int:
        base = key_base(self.deployment.namespace, "votes", partition, self.deployment.partitions)
        return slot_of(base.encode())

    def valkey(self, name: str) -> Redis:
        """Return a client of one server."""
        return Redis.from_url(self.stack.server(name).address, socket_timeout=5)

    async def ask(self, name: str, *command: Any) -> Any:
        async with self.valkey(name) as client:
            return await client.execute_command(*command)

    async def shard(self, slot: int) -> list[str]:
        """Return the names of the shard's servers, the primary first."""
        names = {self._port(name): name for name in self.stack.pids if name.startswith("valkey-")}
        for name in names.values():
            try:
                slots = await self.ask(name, "CLUSTER", "SLOTS")
            except (RedisError, OSError):
                continue
            for first, last, *servers in slots:
                if first <= slot <= last:
                    found = [self.announced.get(server[1], server[1]) for server in servers]
                    return [names[port] for port in found if port in names]
        raise AssertionError("no server has the slot")

    def _port(self, name: str) -> int:
        return int(self.stack.server(name).address.rpartition(":")[2].partition("/")[0])

    async def leader(self, partition: int = 0) -> str:
        """Return the broker that leads a partition of the votes."""
        async with open_admin(self.deployment.kafka_settings) as admin:
            [topic] = await admin.describe_topics([self.deployment.votes.name])
        [found] = [each for each in topic["partitions"] if each["partition"] == partition]
        assert found["leader"] > 0, f"partition {partition} has no leader"
        return f"kafka-{found['leader']}"

    async def controller(self) -> str:
        """Return the broker whose controller is active."""
        async with open_admin(self.deployment.kafka_settings) as admin:
            return f"kafka-{await active_controller(admin)}"

    async def fences(self) -> list[int]:
        """Return the fence epoch of each partition."""
        views = self.deployment.vote_views
        return [(await views.state(number)).incarnation for number in range(self.deployment.partitions)]


TOPIC = "__cluster_metadata"
TAGS = ("tags", TaggedFields)
REPLICAS = CompactArray(("replica_id", Int32), ("log_end_offset", Int64), TAGS)
QUORUM = CompactArray(
    ("partition_index", Int32),
    ("error_code", Int16),
    ("leader_id", Int32),
    ("leader_epoch", Int32),
    ("high_watermark", Int64),
    ("current_voters", REPLICAS),
    ("observers", REPLICAS),
    TAGS,
)
"""Of Kafka's DescribeQuorum request (KIP-595), which its Python clients do not have."""


class DescribeQuorumResponse(Response):
    API_KEY = 55
    API_VERSION = 0
    SCHEMA = Schema(
        ("error_code", Int16),
        ("topics", CompactArray(("topic_name", CompactString("utf-8")), ("partitions", QUORUM), TAGS)),
        TAGS,
    )


class DescribeQuorumRequestStruct(RequestStruct):
    FLEXIBLE_VERSION = True
    API_KEY = 55
    API_VERSION = 0
    RESPONSE_TYPE = DescribeQuorumResponse
    _PARTITIONS = CompactArray(("partition_index", Int32), TAGS)
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_name", CompactString("utf-8")), ("partitions", _PARTITIONS), TAGS)), TAGS
    )


class DescribeQuorumRequest(Request[DescribeQuorumRequestStruct]):
    API_KEY = 55

    def build(self, request_struct_class: type[DescribeQuorumRequestStruct]) -> DescribeQuorumRequestStruct:
        return request_struct_class([(TOPIC, [(0, {})], {})], {})


async def active_controller(admin: AIOKafkaAdminClient) -> int:
    """Return the node id of the controller that is active now; metadata responses name any broker instead."""
    answer = await admin._send_request(DescribeQuorumRequest())
    assert answer.error_code == 0, answer
    [(_, [partition, *_], _)] = answer.topics
    return partition[2]
