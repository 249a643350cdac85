"""Creates and checks the topics of a namespace, whose settings must not lose or alter events; reads brokers."""

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple, TypeVar, cast

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    KafkaError,
    NoError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    for_code,
)

from libs.concurrency.tasks import becomes_true
from libs.contracts.codec import vote_codec
from libs.contracts.topics import REQUIRED_SETTINGS, Topic
from libs.kafka.cancellation import StartedOnce, call
from libs.kafka.errors import NO_ANSWER, LogChanged, ReplicasAway, TopicMissing, WrongTopic
from libs.kafka.reader import LogReader
from libs.kafka.security import connection
from libs.kafka.settings import KafkaSettings, least_in_sync
from libs.tally.errors import LogUnavailable, TallyError
from libs.tally.events import LogCreated

T = TypeVar("T")
CREATION_TIMEOUT_S = 30.0
MIN_IN_SYNC: Final = "min.insync.replicas"
FLUSH_EACH: Final = "flush.messages"
"""Records after which a broker flushes before it acknowledges; by default the operating system does, later."""
REPLICATION_FACTOR: Final = "replication factor"
FENCED: Final = "brokers are currently fenced"
"""Part of the message while Kafka starts; its code is that of a wrong replication factor."""
GIVEN_TIMES: Final = {"message.timestamp.type": "CreateTime", "message.timestamp.after.max.ms": str(2**63 - 1)}
"""Topic settings under which records keep any timestamp of their producer."""
ANSWER_S = 5.0
"""Timeout of a check."""
ANY_SETTING = "cleanup.policy"


Sample = Callable[[int], Sequence[int]]
"""Chooses some partitions of a topic that has so many."""


class FoundTopic(NamedTuple):
    """An existing topic; `takes_given_times` if it stores the producer's timestamps."""

    partitions: int
    takes_given_times: bool


def required_settings(settings: KafkaSettings) -> dict[str, str]:
    """Return a topic's required settings: with three replicas or more, two must acknowledge a record.

    With `log_flush` `every` each has it on its disk by then. With `replicas` a topic may flush more than required.
    """
    least = least_in_sync(settings.kafka_replication_factor)
    flushed = {FLUSH_EACH: "1"} if settings.log_flush == "every" else {}
    return {**REQUIRED_SETTINGS, **flushed, **({MIN_IN_SYNC: str(least)} if least > 1 else {})}


async def create_topics(settings: KafkaSettings, topics: Sequence[Topic]) -> None:
    """Create the missing `topics`, append LogCreated to each empty partition, and check them all.

    Idempotent, and safe to run concurrently. Raises `WrongTopic` as `check_topics`, and `LogUnavailable` if Kafka
    does not respond.
    """
    await create_missing(settings, topics)
    await begin_logs(settings, topics)
    await check_created(lambda: check_topics(settings, topics))


async def check_created(check: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Repeat the check of new topics while the broker that is asked does not have one of them yet."""

    async def is_done() -> bool:
        try:
            await check()
        except TopicMissing:
            return False
        return True

    if not await becomes_true(is_done, CREATION_TIMEOUT_S):
        await check()


async def create_missing(settings: KafkaSettings, topics: Sequence[Topic]) -> None:
    """Create the missing `topics`, empty. Idempotent. Raises `WrongTopic` and `LogUnavailable`."""
    await _create(settings, topics, {})


async def create_unbegun(settings: KafkaSettings, topics: Sequence[Topic]) -> None:
    """Create the missing `topics`, empty, such that they store the producer's timestamps.

    Services refuse to use them before `take_append_times`. Raises `WrongTopic` and `LogUnavailable`.
    """
    await _create(settings, topics, GIVEN_TIMES)


async def take_append_times(settings: KafkaSettings, topics: Sequence[Topic]) -> None:
    """Switch to the required broker timestamps (LogAppendTime); existing records keep theirs.

    Returns when the settings are in force, which Kafka applies only after its answer. Idempotent. Raises
    `LogUnavailable`.
    """
    wanted = required_settings(settings)
    names = [topic.name for topic in topics]
    resources = [ConfigResource(ConfigResourceType.TOPIC, name, wanted) for name in names]
    async with open_admin(settings) as admin:
        for answer in await admin.alter_configs(resources):
            for code, message, _, name in answer.resources:
                if for_code(code) is not NoError:
                    raise WrongTopic(f"topic {name} cannot be altered: {message}", topic=name)

        async def are_applied() -> bool:
            return all(values == wanted for values in (await _settings_of(admin, names, wanted)).values())

        if not await becomes_true(are_applied, CREATION_TIMEOUT_S):
            raise LogUnavailable("The topics' settings have not been applied in time.", retry_after_s=1)


async def find_topics(settings: KafkaSettings, topics: Sequence[Topic]) -> dict[str, FoundTopic]:
    """Return the existing ones of `topics`, by name. Raises `LogUnavailable`."""
    async with open_admin(settings) as admin:
        described = await describe_topics(admin, [topic.name for topic in topics])
        found = await _settings_of(admin, list(described), GIVEN_TIMES)
    return {name: FoundTopic(len(described[name]), values == GIVEN_TIMES) for name, values in found.items()}


async def number_of_partitions(settings: KafkaSettings, topics: Sequence[str]) -> dict[str, int]:
    """Return the number of partitions of the existing ones of `topics`. Raises `LogUnavailable`."""
    async with open_admin(settings) as admin:
        described = await describe_topics(admin, topics)
    return {name: len(partitions) for name, partitions in described.items()}


async def begin_logs(settings: KafkaSettings, topics: Sequence[Topic]) -> None:
    """Append LogCreated to every empty partition.

    Two creators may both find it empty; only the record at offset 0 counts, and the fold ignores the other.
    """
    async with LogReader(settings) as reader:
        ends = await _together([reader.end_offsets(topic.name, range(topic.partitions)) for topic in topics])
    empty = [
        (topic.name, partition, LogCreated(_log_id(), partitions=topic.partitions if topic.first else None))
        for topic, offsets in zip(topics, ends, strict=True)
        for partition, end in offsets.items()
        if end == 0
    ]
    await append_first(settings, empty)


async def append_first(settings: KafkaSettings, records: Sequence[tuple[str, int, LogCreated]]) -> None:
    """Append `records` (topic, partition, record) to empty partitions. Raises `LogUnavailable`."""
    if not records:
        return
    producer = AIOKafkaProducer(
        **connection(settings),
        acks="all",
    )
    try:
        await producer.start()
        acks = [
            await producer.send(name, vote_codec.encode(record), partition=partition)
            for name, partition, record in records
        ]
        await asyncio.gather(*acks)
    except (KafkaError, OSError) as error:
        raise LogUnavailable(NO_ANSWER, retry_after_s=1, cause=error) from error
    finally:
        await producer.stop()


class TopicPresence:
    """Asks for a setting of each topic.

    Kafka's list of topics has all their partitions, which takes aiokafka 20 us each to read; and its requests for
    the metadata of named topics create those that do not exist where a broker permits that.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._admin = StartedOnce(lambda: AIOKafkaAdminClient(**connection(settings)), AIOKafkaAdminClient.close)

    async def existing(self, names: Collection[str]) -> set[str]:
        """Return those of the topics that exist. Raises `LogUnavailable`."""
        try:
            return await call(self._existing(names), ANSWER_S)
        except (KafkaError, OSError, TimeoutError) as error:
            await self.close()
            raise LogUnavailable(NO_ANSWER, retry_after_s=1, cause=error) from error

    async def close(self) -> None:
        await self._admin.drop()

    async def _existing(self, names: Collection[str]) -> set[str]:
        admin = await self._admin.get()
        wanted = [ConfigResource(ConfigResourceType.TOPIC, name, {ANY_SETTING: None}) for name in names]
        found = set()
        for answer in await admin.describe_configs(wanted):
            for code, _, _, name, *_ in answer.resources:
                error = for_code(code)
                if error is NoError:
                    found.add(name)
                elif error is not UnknownTopicOrPartitionError:
                    raise error(name)
        return found


class Examination(NamedTuple):
    """Problems of the topics, and the first record of each partition, by topic."""

    problems: list[TallyError]
    first_records: dict[str, dict[int, LogCreated]]


async def check_topics(settings: KafkaSettings, topics: Sequence[Topic]) -> None:
    """Raise the first permanent problem that `examine_topics` finds."""
    raise_permanent((await examine_topics(settings, topics)).problems)


def raise_permanent(problems: Sequence[TallyError]) -> None:
    """Raise the first problem that retries do not solve, missing topics last: those may be on their way."""
    permanent = [problem for problem in problems if problem.retry_after_s is None]
    for problem in sorted(permanent, key=lambda problem: isinstance(problem, TopicMissing)):
        raise problem


async def examine_topics(settings: KafkaSettings, topics: Sequence[Topic], sample: Sample = range) -> Examination:
    """Return all problems; each names its topic, the setting, the actual and the required value.

    First records are read only of the partitions that `sample` returns for a topic of so many.
    `WrongTopic`, of which `TopicMissing` for one without first records; `LogChanged` if a partition does not start
    with LogCreated; `ReplicasAway` if fewer replicas than `min.insync.replicas` are in sync. Raises
    `LogUnavailable` if Kafka does not respond.
    """
    wanted = required_settings(settings)
    found = Examination([], {})
    async with open_admin(settings) as admin:
        described = await describe_topics(admin, [topic.name for topic in topics])
        for topic in topics:
            partitions = described.get(topic.name)
            if partitions is None:
                found.problems.append(TopicMissing(f"topic {topic.name} does not exist", topic=topic.name))
            elif len(partitions) != topic.partitions:
                found.problems.append(wrong_partitions(topic, len(partitions)))
        for name, values in (await _settings_of(admin, list(described), {*wanted, MIN_IN_SYNC})).items():
            found.problems.extend(
                _wrong(name, setting, str(values.get(setting)), value)
                for setting, value in wanted.items()
                if values.get(setting) != value
            )
            copies, in_sync = settings.kafka_replication_factor, int(values[MIN_IN_SYNC])
            found.problems.extend(_examine_replicas(name, described[name], copies, in_sync))
    async with LogReader(settings) as reader:
        begins = [
            _examine_begin(reader, name, sample(len(partitions)), found) for name, partitions in described.items()
        ]
        problems = await _together(begins)
    found.problems.extend(problem for each in problems for problem in each)
    return found


async def out_of_sync(settings: KafkaSettings, topics: Sequence[Topic]) -> dict[int, int]:
    """Return the brokers that lack records of these topics, by id, with the number of their partitions.

    It names also a broker that left the cluster. Raises `LogUnavailable`.
    """
    async with open_admin(settings) as admin:
        described = await describe_topics(admin, [topic.name for topic in topics])
    lacking = Counter(
        node
        for partitions in described.values()
        for each in partitions
        for node in set(each["replicas"]) - set(each["isr"])
    )
    return dict(sorted(lacking.items()))


async def _examine_begin(
    reader: LogReader, topic: str, partitions: Sequence[int], found: Examination
) -> list[TallyError]:
    """Note the first records, and return the problems; a returned error would be taken for a raised one."""
    try:
        found.first_records[topic] = await reader.first_records(topic, partitions)
    except LogChanged as error:
        return [error]
    if len(found.first_records[topic]) < len(partitions):
        return [TopicMissing(f"topic {topic}: a partition is empty, without LogCreated", topic=topic)]
    return []


async def _together(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return the results of concurrent calls of a reader. Raises the first error, once all calls have ended."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return cast(list[T], results)


def wrong_partitions(topic: Topic, found: int) -> WrongTopic:
    """Return the error for a number of partitions other than the one that this process partitions keys by."""
    return _wrong(topic.name, "partitions", str(found), str(topic.partitions))


def _examine_replicas(
    topic: str, partitions: Sequence[Mapping[str, Any]], factor: int, min_in_sync: int
) -> Iterator[TallyError]:
    """Report the first partition with too few replicas, and the first with too few in-sync replicas."""
    fewest = min(len(each["replicas"]) for each in partitions)
    if fewest < factor:
        yield _wrong(topic, REPLICATION_FACTOR, str(fewest), str(factor))
    for each in partitions:
        if len(each["isr"]) < min_in_sync:
            yield ReplicasAway(
                f"topic {topic}: partition {each['partition']} has {len(each['isr'])} replicas in sync, "
                f"and {min_in_sync} must acknowledge a record",
                retry_after_s=1,
                topic=topic,
            )
            return


async def _create(settings: KafkaSettings, topics: Sequence[Topic], changes: dict[str, str]) -> None:
    configs = required_settings(settings) | changes
    wanted = [
        NewTopic(topic.name, topic.partitions, settings.kafka_replication_factor, topic_configs=configs)
        for topic in topics
    ]
    async with open_admin(settings) as admin:
        try:
            answer = await admin.create_topics(wanted, timeout_ms=int(CREATION_TIMEOUT_S * 1000))
        except AttributeError as no_controller:  # aiokafka's, while no broker knows the active one
            raise LogUnavailable(NO_ANSWER, retry_after_s=1, cause=no_controller) from no_controller
        for name, code, message in answer.topic_errors:
            error, reason = for_code(code), f"topic {name} cannot be created: {message or for_code(code).__name__}"
            if error.retriable or FENCED in (message or ""):
                raise LogUnavailable(reason, retry_after_s=1)
            if error not in (NoError, TopicAlreadyExistsError):
                raise WrongTopic(reason, topic=name)
        names = [topic.name for topic in topics]
        described: dict[str, Sequence[Mapping[str, Any]]] = {}

        async def are_known() -> bool:
            """Return whether a broker has the new topics, shortly after the controller has created them."""
            nonlocal described
            described = await describe_topics(admin, names)
            return len(described) == len(topics)

        if not await becomes_true(are_known, CREATION_TIMEOUT_S):
            raise LogUnavailable(
                f"Kafka does not show its new topics after {CREATION_TIMEOUT_S:.0f} s", retry_after_s=1
            )
        for topic in topics:  # before anything waits for a partition that there is not
            if len(described[topic.name]) != topic.partitions:
                raise wrong_partitions(topic, len(described[topic.name]))


def _wrong(topic: str, setting: str, found: str, wanted: str) -> WrongTopic:
    return WrongTopic(
        f"topic {topic}: {setting} is {found}, but must be {wanted}",
        topic=topic,
        setting=setting,
        found=found,
        wanted=wanted,
    )


async def _settings_of(
    admin: AIOKafkaAdminClient, names: Sequence[str], wanted: Iterable[str]
) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name, dict.fromkeys(wanted)) for name in names]
    for answer in await admin.describe_configs(resources) if resources else ():
        for code, message, _, name, entries in answer.resources:
            error = for_code(code)
            if error.retriable:  # another broker than the one that described the topic may not know it yet
                raise LogUnavailable(f"topic {name} cannot be examined: {message}", retry_after_s=1)
            if error is not NoError:
                raise WrongTopic(f"topic {name} cannot be examined: {message}", topic=name)
            found[name] = {entry[0]: entry[1] for entry in entries}
    return found


async def describe_topics(
    admin: AIOKafkaAdminClient, topics: Sequence[str]
) -> dict[str, Sequence[Mapping[str, Any]]]:
    """Return the partitions of the existing topics, each with its `replicas` and `isr`."""
    described = await admin.describe_topics(list(topics))
    return {one["topic"]: one["partitions"] for one in described if for_code(one["error_code"]) is NoError}


@asynccontextmanager
async def open_admin(settings: KafkaSettings) -> AsyncIterator[AIOKafkaAdminClient]:
    """Open an administration client. Raises `LogUnavailable` if Kafka does not respond."""
    admin = AIOKafkaAdminClient(**connection(settings))
    try:
        await admin.start()
        yield admin
    except (KafkaError, OSError) as error:
        raise LogUnavailable(NO_ANSWER, retry_after_s=1, cause=error) from error
    finally:
        await admin.close()


def _log_id() -> str:
    return secrets.token_hex(16)


SESSION_TIMEOUT: Final = "broker.session.timeout.ms"
ELECTION_MS: Final = 3_000
"""Time after a lost broker's session until its successors acknowledge records."""


class Brokers(NamedTuple):
    """The number of brokers, and the time after which a silent one is replaced (ms; None: may not be read)."""

    number: int
    session_ms: int | None

    @property
    def shortest_deadline_ms(self) -> int | None:
        """Return the shortest deadline of an append that outlasts the loss of a broker; 0 for a single one."""
        if self.number == 1:
            return 0
        return None if self.session_ms is None else self.session_ms + ELECTION_MS


async def read_brokers(settings: KafkaSettings) -> Brokers:
    """Read the brokers' settings. Raises `LogUnavailable`."""
    async with open_admin(settings) as admin:
        nodes = [broker["node_id"] for broker in (await admin.describe_cluster())["brokers"]]
        resources = [
            ConfigResource(ConfigResourceType.BROKER, str(node), {SESSION_TIMEOUT: None}) for node in nodes
        ]
        sessions = [
            int(entry[1])
            for answer in await admin.describe_configs(resources)
            for code, _, _, _, entries in answer.resources
            if for_code(code) is NoError
            for entry in entries
            if entry[0] == SESSION_TIMEOUT
        ]
    return Brokers(len(nodes), max(sessions, default=None))
