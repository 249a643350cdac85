"""The projector as a process: folds, drains, survives kill -9, and refuses a wrong log."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from libs.contracts.codec import vote_codec
from libs.contracts.log_records import Position
from libs.contracts.topics import Topic, legacy_test_namespace, purchases_topic, topics_of, votes_topic
from libs.kafka.reader import LogReader
from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import create_topics
from libs.kafka.writer import LogWriter
from libs.local_stack.servers import Servers
from libs.tally.events import Fence
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.purchases.purchase_views import PurchaseViews
from libs.views.valkey.function_loading import load_functions, open_valkey
from tests.support.eventually import eventually
from tests.support.vote_views import VoteViews

pytestmark = pytest.mark.slow

PARTITIONS = 2


class Deployment:
    """Topics and views of a namespace, and the processes started in it."""

    def __init__(self, kafka: str, valkey: str, namespace: str, storage: Path) -> None:
        self.settings = KafkaSettings(kafka_bootstrap_servers=kafka)
        self.votes = votes_topic(namespace, PARTITIONS)
        self.reader = LogReader(self.settings)
        self.writer = LogWriter(self.settings)
        self.valkey = open_valkey(valkey)
        self.views = VoteViews(self.valkey, namespace, PARTITIONS)
        self.test_catalogue = CatalogueViews(self.valkey, legacy_test_namespace(namespace))
        purchases = PurchaseViews(self.valkey, namespace, purchases_topic(namespace, PARTITIONS))
        catalogue = CatalogueViews(self.valkey, namespace)
        self.all_views = self.views, purchases, catalogue, self.test_catalogue
        self.processes: list[asyncio.subprocess.Process] = []
        self._namespace = namespace
        self._said = storage / "projector.log"
        self._environment = {
            "TALLY_KAFKA_BOOTSTRAP_SERVERS": kafka,
            "TALLY_VALKEY_URL": valkey,
            "TALLY_NAMESPACE": namespace,
            "TALLY_PARTITIONS": str(PARTITIONS),
            "TALLY_STORAGE_URL": str(storage),
        }

    async def create(self) -> None:
        await create_topics(self.settings, topics_of(self._namespace, PARTITIONS))
        await self.writer.start()

    async def start(self) -> asyncio.subprocess.Process:
        # into a file: a pipe that is not read would stop a process that writes much
        with self._said.open("ab") as stderr:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "services.projector",
                env={**os.environ, **self._environment},
                stderr=stderr,
            )
        self.processes.append(process)
        return process

    def said(self) -> bytes:
        return self._said.read_bytes()

    async def ends(self, process: asyncio.subprocess.Process) -> bytes:
        """Return its log, once it has ended."""
        await asyncio.wait_for(process.wait(), 60)
        return self.said()

    async def append(self, count: int) -> None:
        """Fences that change nothing: the fold ignores those below the current one."""
        fence = vote_codec.encode(Fence(0))
        partitions = (n % PARTITIONS for n in range(count))
        await asyncio.gather(*(self.writer.append(self.votes.name, p, fence, deadline_s=30) for p in partitions))

    async def is_folded(self) -> bool:
        ends = await self.reader.end_offsets(self.votes.name, range(PARTITIONS))
        stored = {partition: await self.views.position(partition) for partition in ends}
        return all(at is not None and at.offset == ends[partition] for partition, at in stored.items())

    async def gates_are_open(self) -> bool:
        states = [await self.views.state(partition) for partition in range(PARTITIONS)]
        return all(state.open for state in states)

    async def close(self) -> None:
        for process in self.processes:
            if process.returncode is None:
                process.kill()
            await process.wait()
        await self.writer.stop()
        await self.reader.close()
        await self.valkey.close()


@pytest.fixture
async def deployment(kafka: str, valkey_address: str, namespace: str, tmp_path: Path) -> AsyncIterator[Deployment]:
    deployment = Deployment(kafka, valkey_address, namespace, tmp_path)
    yield deployment
    await deployment.close()


async def test_it_opens_the_gates_folds_and_drains_on_sigterm(deployment: Deployment) -> None:
    await deployment.create()
    process = await deployment.start()
    await eventually(there(deployment.gates_are_open))
    await deployment.append(500)
    await eventually(deployment.is_folded)
    process.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), 60) == 0


async def test_a_frozen_kafka_does_not_hold_up_its_end(deployment: Deployment, breakable: Servers) -> None:
    await deployment.create()
    process = await deployment.start()
    await eventually(there(deployment.gates_are_open))
    os.kill(breakable.pids["kafka"], signal.SIGSTOP)
    try:
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 60) == 0
    finally:
        os.kill(breakable.pids["kafka"], signal.SIGCONT)


async def test_killed_servers_are_waited_for(deployment: Deployment, breakable: Servers) -> None:
    await deployment.create()
    process = await deployment.start()
    await eventually(there(deployment.gates_are_open))
    for name in ("valkey", "kafka"):
        await breakable.kill(name)
        await breakable.restart(name)
        await deployment.append(100)
        await eventually(there(deployment.is_folded))
        await eventually(there(deployment.gates_are_open))
    assert process.returncode is None


async def test_a_recreated_log_stops_its_fold_alone(deployment: Deployment) -> None:
    """That of the test environment's catalogue; votes are taken, and folded."""
    await deployment.create()
    await load_functions(deployment.valkey)
    await deployment.test_catalogue.apply(1, Position("the log of before", 0), [], 5)
    process = await deployment.start()
    await eventually(there(deployment.gates_are_open))
    await eventually(lambda: b"it was recreated" in deployment.said())
    await deployment.append(100)
    await eventually(deployment.is_folded)
    assert process.returncode is None


async def test_recreated_logs_of_all_topics_end_it_with_a_status_of_its_own(deployment: Deployment) -> None:
    await deployment.create()
    await load_functions(deployment.valkey)
    for views in deployment.all_views:
        await views.apply(1, Position("the log of before", 0), [], 5)
    process = await deployment.start()
    said = await deployment.ends(process)
    assert process.returncode == 3
    assert said.count(b"it was recreated") >= 4


async def test_a_wrong_topic_ends_it_with_a_status_of_its_own(deployment: Deployment) -> None:
    await create_topics(deployment.settings, [Topic(deployment.votes.name, PARTITIONS + 1)])
    process = await deployment.start()
    said = await deployment.ends(process)
    assert process.returncode == 3
    assert b"partitions is 3, but must be 2" in said


def there(check: Callable[[], Awaitable[bool]]) -> Callable[[], Awaitable[bool]]:
    """False while a server does not answer."""

    async def checked() -> bool:
        try:
            return await check()
        except Exception:
            return False

    return checked
