"""The identity of a deployment: its object store and first number of partitions, recorded at the log's beginning.

The first record of the catalogue's first partition holds both. It is written before all others, never changes,
and an import copies it. So every process can compare its settings with it without the views.
"""

import secrets
from typing import Final

from libs.contracts.topics import Topic, VotesLog, catalogue_topic, topics_of, votes_topic
from libs.kafka.errors import WrongTopic
from libs.kafka.reader import LogReader
from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import (
    Examination,
    Sample,
    append_first,
    begin_logs,
    check_created,
    create_missing,
    examine_topics,
    raise_permanent,
)
from libs.storage.object_store import Store, find_store_id, make_store_id
from libs.tally.errors import TallyError
from libs.tally.events import LogCreated

RECORDED_IN: Final = 0
"""The catalogue partition whose first record identifies the deployment."""
STORE_WAY_OUT: Final = (
    "set TALLY_STORAGE_URL to the object store that this log was begun with, the same on every machine, or "
    "restore that store's contents, with all below secrets/"
)


class WrongStore(TallyError):
    """The object store is not the log's: voters would get other pseudonyms."""

    code = "wrong_store"


async def create_deployment(settings: KafkaSettings, log: VotesLog, store: Store) -> None:
    """Create missing topics, record the deployment's identity, write each log's first record, and check all.

    Repeatable. Of concurrent creators with different stores, the first in the log wins; others get `WrongStore`.
    Raises as `check_deployment`.
    """
    topics = topics_of(log.namespace, log.begun_with)
    catalogue = catalogue_topic(log.namespace).name
    await create_missing(settings, topics)
    async with LogReader(settings) as reader:
        ends = await reader.end_offsets(catalogue, [RECORDED_IN])
    if ends[RECORDED_IN] == 0:
        first = LogCreated(secrets.token_hex(16), await make_store_id(store), log.begun_with)
        await append_first(settings, [(catalogue, RECORDED_IN, first)])
    await begin_logs(settings, topics)
    await check_created(lambda: check_deployment(settings, log, store))


async def check_deployment(settings: KafkaSettings, log: VotesLog, store: Store) -> None:
    """Raise the first problem found by `examine_deployment` that retries do not solve."""
    raise_permanent((await examine_deployment(settings, log, store)).problems)


async def examine_deployment(
    settings: KafkaSettings, log: VotesLog, store: Store, sample: Sample = range
) -> Examination:
    """Examine topics as `examine_topics` does, and compare the settings with the log's identity.

    `sample` must return all partitions of the catalogue. Raises `LogUnavailable` and `StorageUnavailable`.
    """
    namespace, partitions = log.namespace, log.begun_with
    found = await examine_topics(settings, [*topics_of(namespace, partitions), *log.later], sample)
    votes, catalogue = votes_topic(namespace, partitions), catalogue_topic(namespace)
    recorded = found.first_records.get(catalogue.name, {}).get(RECORDED_IN)
    if recorded is None:
        return found
    begun = len(found.first_records.get(votes.name, ())) == len(sample(partitions))
    if begun and recorded.partitions not in (None, partitions):
        found.problems.append(_grown(votes, recorded.partitions))
    if recorded.store_id is not None:
        present = await find_store_id(store)
        if present != recorded.store_id:
            found.problems.append(_wrong_store(namespace, catalogue, present))
    return found


def _grown(votes: Topic, begun_with: int | None) -> WrongTopic:
    return WrongTopic(
        f"topic {votes.name} was begun with {begun_with} partitions and has {votes.partitions} now: voters would "
        "be assigned to other partitions than their votes",
        topic=votes.name,
        setting="partitions",
        found=str(votes.partitions),
        wanted=str(begun_with),
    )


def _wrong_store(namespace: str, catalogue: Topic, present: str | None) -> WrongStore:
    has = "has no id, so it is new or has lost its contents" if present is None else "has another id"
    return WrongStore(
        f"the object store (TALLY_STORAGE_URL) is not the one that the log (TALLY_KAFKA_BOOTSTRAP_SERVERS, "
        f"TALLY_NAMESPACE={namespace}) was begun with: it {has}. To correct it: {STORE_WAY_OUT}",
        topic=catalogue.name,
    )
