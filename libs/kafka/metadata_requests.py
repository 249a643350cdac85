"""Metadata requests that create no topic.

aiokafka's clients let brokers create the topics that they ask for. Brokers do so by default, with one partition
and a retention that deletes votes. aiokafka 0.14 has no option against it, so its request is replaced.
"""

from typing import Any, Final

import aiokafka.admin.client
import aiokafka.client
from aiokafka.errors import IncompatibleBrokerVersion
from aiokafka.protocol.metadata import MetadataRequest, MetadataRequestStruct

OLDEST: Final = 4
"""The version of the request that first says whether topics may be created."""


class CreatingNone(MetadataRequest):  # type: ignore[misc]  # of a module without types
    """A request for the metadata of topics, of which the missing ones stay missing (Kafka 0.11 and later)."""

    def __init__(self, topics: list[str] | None = None) -> None:
        super().__init__(topics, allow_auto_topic_creation=False)

    def build(self, request_struct_class: type[MetadataRequestStruct]) -> MetadataRequestStruct:
        """Build it for a version that the broker has. Raises `IncompatibleBrokerVersion` for an old one."""
        if request_struct_class.API_VERSION < OLDEST:
            raise IncompatibleBrokerVersion("Kafka must be 0.11 or newer")
        return super().build(request_struct_class)


def never_create_topics() -> None:
    """Make all clients of this process ask without creating topics; idempotent."""
    modules: list[Any] = [aiokafka.client, aiokafka.admin.client]
    for module in modules:
        module.MetadataRequest = CreatingNone
