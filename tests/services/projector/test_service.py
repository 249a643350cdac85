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
from libs.contracts.topics import Topic, legacy_test_namespace, purchases_topic, votes_topic
from libs.deployment.settings import DeploymentAddresses
from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import create_topics
from libs.local_stack.servers import Servers
from libs.tally.events import Fence
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.purchases.purchase_views import PurchaseViews
from tests.services.projector.projector_environment import PARTITIONS, ProjectorEnvironment
from tests.support.clients.commands import environment
from tests.support.eventually import eventually
from tests.support.servers.frozen_process import stopped

pytestmark = pytest.mark.slow

FORMER = Position("the log of before", 0)


class Projector:
    """The process, and what it says."""

    def __init__(self, addresses: DeploymentAddresses, log: Path) -> None:
        self._environment = environment(addresses)
        self._log = log
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> asyncio.subprocess.Process:
        command = sys.executable, "-m", "services.projector"
        # into a file: a pipe that is not read would stop a process that writes much
        with self._log.open("ab") as stderr:
            self.process = await asyncio.create_subprocess_exec(
                *command, env={**os.environ, **self._environment}, stderr=stderr
            )
        return self.process

    def said(self) -> bytes:
        return self._log.read_bytes()

    async def ends(self) -> int:
        """Return its exit status, once it has ended."""
        assert self.process is not None
        return await asyncio.wait_for(self.process.wait(), 60)


@pytest.fixture
async def projector(kafka: str, valkey_address: str, namespace: str, tmp_path: Path) -> AsyncIterator[Projector]:
    addresses = DeploymentAddresses(kafka, valkey_address, namespace, PARTITIONS, tmp_path.as_uri(), {})
    projector = Projector(addresses, tmp_path / "projector.log")
    yield projector
    if projector.process is not None and projector.process.returncode is None:
        projector.process.kill()
        await projector.process.wait()


async def opened(own: ProjectorEnvironment, projector: Projector) -> asyncio.subprocess.Process:
    process = await projector.start()
    await eventually(there(own.gates_are_open))
    return process


async def append(own: ProjectorEnvironment, count: int) -> None:
    """Fences that change nothing: the fold ignores those below the current one."""
    log, fence = own.catalogue.log, vote_codec.encode(Fence(0))
    partitions = (n % PARTITIONS for n in range(count))
    await asyncio.gather(*(log.append(own.topic.name, p, fence, deadline_s=30) for p in partitions))


async def is_folded(own: ProjectorEnvironment) -> bool:
    ends = await own.reader.end_offsets(own.topic.name, range(PARTITIONS))
    stored = {partition: await own.votes.position(partition) for partition in ends}
    return all(at is not None and at.offset == ends[partition] for partition, at in stored.items())


async def test_it_opens_the_gates_folds_and_drains_on_sigterm(
    own: ProjectorEnvironment, projector: Projector
) -> None:
    process = await opened(own, projector)
    await append(own, 500)
    await eventually(lambda: is_folded(own))
    process.send_signal(signal.SIGTERM)
    assert await projector.ends() == 0


async def test_a_frozen_kafka_does_not_hold_up_its_end(
    own: ProjectorEnvironment, projector: Projector, breakable: Servers
) -> None:
    process = await opened(own, projector)
    with stopped(breakable.pids["kafka"]):
        process.send_signal(signal.SIGTERM)
        assert await projector.ends() == 0


async def test_killed_servers_are_waited_for(
    own: ProjectorEnvironment, projector: Projector, breakable: Servers
) -> None:
    process = await opened(own, projector)
    for name in ("valkey", "kafka"):
        await breakable.kill(name)
        await breakable.restart(name)
        await append(own, 100)
        await eventually(there(lambda: is_folded(own)))
        await eventually(there(own.gates_are_open))
    assert process.returncode is None


async def test_a_recreated_log_stops_its_fold_alone(own: ProjectorEnvironment, projector: Projector) -> None:
    """That of the test environment's catalogue; votes are taken, and folded."""
    test = legacy_test_namespace(own.settings.namespace)
    await CatalogueViews(own.catalogue.valkey, test).apply(1, FORMER, [], 5)
    process = await opened(own, projector)
    await eventually(lambda: b"it was recreated" in projector.said())
    await append(own, 100)
    await eventually(lambda: is_folded(own))
    assert process.returncode is None


async def test_recreated_logs_of_all_topics_end_it_with_a_status_of_its_own(
    own: ProjectorEnvironment, projector: Projector
) -> None:
    valkey, namespace = own.catalogue.valkey, own.settings.namespace
    await own.votes.apply(1, FORMER, [], 5)
    await PurchaseViews(valkey, namespace, purchases_topic(namespace, PARTITIONS)).apply(1, FORMER, [], 5)
    for name in (namespace, legacy_test_namespace(namespace)):
        await CatalogueViews(valkey, name).apply(1, FORMER, [], 5)
    await projector.start()
    assert await projector.ends() == 3
    assert projector.said().count(b"it was recreated") >= 4


async def test_a_wrong_topic_ends_it_with_a_status_of_its_own(
    kafka: str, namespace: str, projector: Projector
) -> None:
    wrong = Topic(votes_topic(namespace, PARTITIONS).name, PARTITIONS + 1)
    await create_topics(KafkaSettings(kafka_bootstrap_servers=kafka), [wrong])
    await projector.start()
    assert await projector.ends() == 3
    assert b"partitions is 3, but must be 2" in projector.said()


def there(check: Callable[[], Awaitable[bool]]) -> Callable[[], Awaitable[bool]]:
    """False while a server does not answer."""

    async def checked() -> bool:
        try:
            return await check()
        except Exception:
            return False

    return checked
