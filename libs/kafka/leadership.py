"""Confirms that a broker led partitions when it answered.

A broker that was cut off from the others still answers: it does not know that another one leads, and what was
acknowledged since. But each record is on at least `min.insync.replicas` brokers before it is acknowledged, and all
of them know the leader that they have it from. So where enough other replicas name the same leader afterwards, no
other one had acknowledged a record.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import Final

from aiokafka import TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.errors import KafkaError
from aiokafka.protocol.metadata import MetadataRequest

from libs.kafka.cancellation import call
from libs.kafka.settings import least_in_sync

logger = logging.getLogger(__name__)

ANSWER_S: Final = 1.0
"""Time for a broker's answer, after which it confirms nothing."""


def leaders(client: AIOKafkaClient, tps: Collection[TopicPartition]) -> dict[TopicPartition, int | None]:
    """Return the brokers that `client` asks now."""
    return {tp: client.cluster.leader_for_partition(tp) for tp in tps}


async def unconfirmed(
    client: AIOKafkaClient, answered: Mapping[TopicPartition, int | None]
) -> list[TopicPartition]:
    """Return the partitions of which too few other replicas name the broker that `answered` as the leader."""
    replicas = {tp: set(_replicas(client.cluster, tp)) for tp in answered}
    brokers = {broker for tp, leader in answered.items() for broker in replicas[tp] - {leader}}
    told = dict(
        zip(brokers, await asyncio.gather(*(_ask(client, each, answered) for each in brokers)), strict=True)
    )

    def is_led(tp: TopicPartition, leader: int | None) -> bool:
        others = replicas[tp] - {leader}
        agreed = sum(told[each].leader_for_partition(tp) == leader for each in others)
        return leader in replicas[tp] and agreed >= len(replicas[tp]) - least_in_sync(len(replicas[tp]))

    return [tp for tp, leader in answered.items() if not is_led(tp, leader)]


def _replicas(cluster: ClusterMetadata, tp: TopicPartition) -> Collection[int]:
    known = cluster._partitions.get(tp.topic, {}).get(tp.partition)
    return () if known is None else known.replicas


async def _ask(client: AIOKafkaClient, broker: int, tps: Collection[TopicPartition]) -> ClusterMetadata:
    """Return what a broker says of the topics: nothing if it does not answer."""
    found = ClusterMetadata()
    request = MetadataRequest(sorted({tp.topic for tp in tps}), False)
    try:
        found.update_metadata(await call(client.send(broker, request), ANSWER_S))
    except (KafkaError, OSError, TimeoutError) as error:
        logger.debug("broker %d does not say who leads: %r", broker, error)
    return found
