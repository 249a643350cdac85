"""What an acknowledged record rests on: the disks or the memory of its replicas, and where those stand."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from libs.contracts.topics import Topic
from libs.kafka.settings import KafkaSettings, least_in_sync
from libs.kafka.topics import describe_topics, open_admin

DURABLE: Final = (
    "set TALLY_LOG_FLUSH=every and follow `tally topics check`, or spread each partition over racks of which none "
    "alone has min.insync.replicas"
)
"""The way out of a risk."""


class Durability(NamedTuple):
    """A sentence on what acknowledged records rest on; `risk`: what would lose some of them all the same."""

    text: str
    risk: str | None


def recorded_on(settings: KafkaSettings) -> str:
    """Return what an acknowledged record rests on by these settings, as a sentence."""
    copies, least = settings.kafka_replication_factor, least_in_sync(settings.kafka_replication_factor)
    is_flushed = settings.log_flush == "every"
    if copies == 1:
        place = f"the {'disk' if is_flushed else 'memory'} of its only replica"
    else:
        place = f"the {'disks' if is_flushed else 'memory'} of all in-sync replicas, at least {least}"
    if is_flushed:
        return f"each record is on {place}, before it is acknowledged"
    return f"each record is in {place}, before it is acknowledged, and on a disk up to a minute later"


async def read_durability(settings: KafkaSettings, topics: Sequence[Topic]) -> Durability:
    """Return what these topics' records rest on, by settings and brokers. Raises `LogUnavailable`."""
    text = recorded_on(settings)
    if settings.log_flush == "every":
        return Durability(text, None)
    async with open_admin(settings) as admin:
        racks = {broker["node_id"]: broker["rack"] for broker in (await admin.describe_cluster())["brokers"]}
        described = await describe_topics(admin, [topic.name for topic in topics])
    least = least_in_sync(settings.kafka_replication_factor)
    replicas = [partition["replicas"] for partitions in described.values() for partition in partitions]
    together = partitions_in_one_place(replicas, racks, least)
    if not together:
        return Durability(f"{text}; no rack alone has enough of them to lose one", None)
    those = "the only replica stands" if least == 1 else f"{least} replicas, enough to acknowledge a record, stand"
    risk = f"of {together} of {len(replicas)} partitions {those} there, as far as the brokers say (broker.rack)"
    return Durability(text, f"a power cut in one place can lose acknowledged records: {risk}")


def partitions_in_one_place(
    partitions: Sequence[Sequence[int]], racks: Mapping[int, str | None], least: int
) -> int:
    """Return how many partitions, each given by its replicas' brokers, have `least` replicas in one rack.

    Brokers that name no rack stand in one.
    """
    most = (max(Counter(racks.get(node) for node in replicas).values()) for replicas in partitions)
    return sum(number >= least for number in most)
