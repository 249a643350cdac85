"""Kafka's DescribeQuorum request (KIP-595), which its Python clients do not have: the active controller."""

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import CompactArray, CompactString, Int16, Int32, Int64, Schema, TaggedFields

TOPIC = "__cluster_metadata"
REPLICAS = CompactArray(("replica_id", Int32), ("log_end_offset", Int64), ("tags", TaggedFields))


class DescribeQuorumResponse(Response):
    API_KEY = 55
    API_VERSION = 0
    SCHEMA = Schema(
        ("error_code", Int16),
        (
            "topics",
            CompactArray(
                ("topic_name", CompactString("utf-8")),
                (
                    "partitions",
                    CompactArray(
                        ("partition_index", Int32),
                        ("error_code", Int16),
                        ("leader_id", Int32),
                        ("leader_epoch", Int32),
                        ("high_watermark", Int64),
                        ("current_voters", REPLICAS),
                        ("observers", REPLICAS),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class DescribeQuorumRequestStruct(RequestStruct):
    FLEXIBLE_VERSION = True
    API_KEY = 55
    API_VERSION = 0
    RESPONSE_TYPE = DescribeQuorumResponse
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(
                ("topic_name", CompactString("utf-8")),
                ("partitions", CompactArray(("partition_index", Int32), ("tags", TaggedFields))),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
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
    leader: int = partition[2]
    return leader
