"""A simulated deployment: shipped gateways and projectors in processes of their own, above simulated servers."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, Final

from obstore.store import MemoryStore as MemoryBackend

from libs.catalogue.commands import CommandWriter
from libs.catalogue.contests.reopening import Reopener
from libs.catalogue.records import RecordService
from libs.catalogue.resource_table import RESOURCES
from libs.contracts.position_token import PositionTokens
from libs.contracts.topics import Topic, VotesLog, catalogue_topic, purchases_topic, votes_topic
from libs.deployment.deployment import Deployment as Servers
from libs.projection.consumer import ConsumerSession, LogClients
from libs.purchases.encryption import AccountCiphers
from libs.purchases.service import PackageBounds, PurchaseService
from libs.storage.object_store import Store
from libs.storage.secrets import SERVER, account_secret
from libs.views.valkey.function_loading import load_functions
from libs.voting.cast_reader import CastReader
from libs.voting.service import VotingService, create_voting_service
from libs.voting.source_reports import SourceReporter
from services.ingestion.voter_reads import VoterReads
from services.projector.app import manager_runs, open_projectors
from services.projector.settings import Settings
from services.projector.supervision import Startup, TaskSupervisor
from tests.simulation.faults import Streams
from tests.simulation.memory_valkey import Backend
from tests.simulation.simulated_log import (
    AppendFaults,
    Brokers,
    Partition,
    SimulatedConsumer,
    SimulatedReader,
    SimulatedWriter,
)
from tests.simulation.simulated_valkey import SimulatedServer, SimulatedValkey
from tests.simulation.virtual_loop import BEGIN_S, SimulatedProcess, VirtualLoop

NAMESPACE: Final = "sim"
ACCOUNT: Final = "acme"
PRODUCE_DEADLINE_MS: Final = 1_000
SOURCE_GRACE_S: Final = 2


class MemoryStore(Store):
    """The object store: it holds secrets only, which are written once."""

    def __init__(self, objects: dict[str, bytes]) -> None:
        super().__init__(MemoryBackend())  # no files
        self._objects = objects

    async def get(self, name: str) -> bytes | None:
        return self._objects.get(name)

    async def put_if_absent(self, name: str, value: bytes) -> bool:
        return self._objects.setdefault(name, value) is value

    async def names(self, prefix: str) -> list[str]:
        return sorted(name for name in self._objects if name.startswith(prefix))


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The size of a deployment, and what of it is in use."""

    partitions: int = 1
    servers: int = 1
    gateways: int = 2
    projectors: int = 1
    has_purchases: bool = False
    has_replays: bool = False
    has_sources: bool = False
    loses_records: bool = False


class Clients(Servers):
    """A process's clients of the simulated servers, in place of those of the real ones."""

    def __init__(self, world: "Deployment", process: SimulatedProcess) -> None:
        super().__init__(world.settings.addresses)
        self.process = process
        topics = SimpleNamespace(log=self.votes, partitions_before_raise=self.partitions_before_raise)
        guard: Any = SimpleNamespace(topics=topics)
        reader: Any = SimulatedReader(process, world, self.votes.place)
        writer: Any = SimulatedWriter(process, world, self.votes.place)
        self.guard, self.reader, self.writer = guard, reader, writer
        self.store, self.valkey = MemoryStore(world.objects), SimulatedValkey(process, world)
        self.connect = partial(_connect, world, self)

    async def find_topics(self) -> None:
        """Do nothing: the topics of the votes do not grow here."""

    async def partitions_before_raise(self) -> Sequence[int]:
        return self.votes.numbers


def _connect(world: "Deployment", clients: Clients, session: ConsumerSession) -> LogClients:
    rng = world.streams[f"{clients.process.name}: batches of {session.topic.name}"]
    reader: Any = SimulatedReader(clients.process, world, session.topic.place)
    return LogClients(reader, SimulatedConsumer(session, clients.process, world.brokers, rng))


class Service:
    """A service of the deployment; after a kill it starts again as another process."""

    def __init__(self, deployment: "Deployment", name: str, newer: str = "") -> None:
        """`newer`: the newer version that it is of, if any."""
        self.name = name
        self.newer = newer
        self.deployment = deployment
        self._lives = 0
        self.start()

    def start(self) -> None:
        world = self.deployment
        if world.live_version and not self.newer:
            return  # its version is no longer used
        self._lives += 1
        self.process = world.process(f"{self.name}.{self._lives}")
        self.process.newer = self.newer
        self.process.is_former = world.has_newer_events and not self.newer
        with world.loop.acting(self.process):
            clients = Clients(world, self.process)
        world.loop.start(self.process, self.run(clients)).add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """Fail the schedule by a defect that ends a process."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self.deployment.crashes.append(error)

    async def run(self, its: Clients) -> None:
        """Run in the process."""


class Gateway(Service):
    """A process that casts votes and writes records."""

    voting: VotingService | None = None

    async def run(self, its: Clients) -> None:
        self.voting = None
        self.voting = await create_voting_service(its)
        tokens, casts = PositionTokens(its.ring("positions")), CastReader(its.reader, its.votes)
        self.reads = VoterReads(its.vote_views, self.voting, its.catalogue.views, casts.read, tokens)
        self.records = RecordService(
            RESOURCES, its.catalogue.views, CommandWriter(its.catalogue.topic, its.writer, its.catalogue.views)
        )
        register = AccountCiphers(partial(account_secret, its.store)), PackageBounds(its.catalogue.views, False)
        self.purchases = PurchaseService(its.purchases, its.writer, its.purchase_views, *register)
        self.reopener = Reopener(self.records, its.vote_views, its.votes)
        self.reporter = SourceReporter(its.votes, its.vote_views, its.catalogue.views, its.writer)

    def request(
        self,
        client: SimulatedProcess,
        work: Callable[["Gateway"], Awaitable[Any]],
        answer: Callable[[Any], None],
    ) -> None:
        """Have the gateway do `work` for a client, and send the result or the error back, unless it is killed."""
        world, process = self.deployment, self.process
        delays = world.streams[f"{client.name}: way to {self.name}"]

        async def serve() -> None:
            try:
                if self.voting is None:
                    return
                result: Any = await work(self)
            except Exception as error:
                result = error
            world.loop.deliver(client, delays.uniform(0.001, 0.01), answer, result)

        def arrive() -> None:
            world.loop.create_task(serve())

        world.loop.deliver(process, delays.uniform(0.001, 0.01), arrive)


class ProjectorProcess(Service):
    """A process of the shipped projector: projections and process managers."""

    async def run(self, its: Clients) -> None:
        world = self.deployment
        projectors = open_projectors(world.settings, its, None, its.connect)
        shape, used = world.shape, {"fences", "closings"}
        folding: list[Any] = [projectors.votes, projectors.catalogue]
        if shape.has_purchases:
            folding.append(projectors.purchases)
            used |= {"purchases", "paid votes"}
        if shape.has_replays:
            used.add("kept generations")
        if shape.loses_records:
            used.add("lost records")
        folds = {f"projection of {each.topic.name}": each.run for each in folding}
        managers = manager_runs(world.settings, its, projectors)
        kept = {name: run for name, run in managers.items() if name in used}
        await Startup().until_done(lambda: load_functions(its.valkey))
        await TaskSupervisor(folds | kept, frozenset(folds)).run()


@dataclass(slots=True)
class _Moment:
    what: str
    left: int
    do: Callable[[SimulatedProcess], None]
    of: Service | None

    def is_met(self, what: str, process: SimulatedProcess) -> bool:
        return self.what == what and (self.of is None or self.of.process is process)


class Faults:
    """What goes wrong all the time, as probabilities of messages; `is_mild`: only clocks differ a little."""

    are_over = False

    def __init__(self, streams: Streams, is_mild: bool) -> None:
        rng = streams["faults: rates"]
        self.message_loss = rng.choice([0.0, 0.0, 0.01, 0.04])
        share = rng.choice([0.0, 0.03, 0.1])
        self.appends = AppendFaults(*(share * rng.random() for _ in AppendFaults._fields))
        self.slowest_s = rng.choice([0.004, 0.05, 0.8])
        """Bound of the usual delay of an append's way."""
        self.clocks_s = rng.choice([0.0, 0.3, 3.0, 15.0])
        """Bound of the differences between clocks."""
        if is_mild:
            self._end_rates()
            self.clocks_s = rng.choice([0.0, 0.1])

    def _end_rates(self) -> None:
        self.message_loss, self.appends, self.slowest_s = 0.0, AppendFaults(), 0.004

    def end(self) -> None:
        self.are_over = True
        self._end_rates()


@cache
def _settings(partitions: int, keep_s: int) -> Settings:
    return Settings(
        namespace=NAMESPACE,
        partitions=partitions,
        produce_deadline_ms=PRODUCE_DEADLINE_MS,
        source_grace_s=SOURCE_GRACE_S,
        projector_keep_generation_s=keep_s,
    )


class Deployment:
    """Servers and processes of one schedule."""

    def __init__(
        self,
        loop: VirtualLoop,
        streams: Streams,
        backends: Sequence[Backend],
        note: Callable[[str], None],
        shape: Shape,
        *,
        is_mild: bool,
    ) -> None:
        self.loop = loop
        self.streams = streams
        self.note = note
        self.shape = shape
        self.faults = Faults(streams, is_mild)
        self.objects: dict[str, bytes] = {}
        if streams["secrets"].random() < 0.4:  # only the records tell with which secret a receipt was signed
            first = f"{SERVER}/receipts"
            self.objects |= {first: b"first", f"{first}.{round(BEGIN_S * 1e6):016d}": b"second"}
        self.crashes: list[BaseException] = []
        self.has_newer_events = False
        """True if processes of the former version do not know some events (`schedule.REPLACED`)."""
        self.live_version = ""
        """The newer version that all views have the layouts of, if any."""
        self._moments: list[_Moment] = []
        self.keep_s = streams["replays"].choice([2, 4, 3_600]) if shape.has_replays else 3_600
        """For how long the views before a replay are kept."""
        self.settings = _settings(shape.partitions, self.keep_s)
        self.votes_topic = votes_topic(NAMESPACE, shape.partitions)
        self.catalogue_topic = catalogue_topic(NAMESPACE)
        self.purchases_topic = purchases_topic(NAMESPACE, shape.partitions)
        self.brokers = Brokers(loop, streams)
        self.servers = [SimulatedServer(number, loop, streams, note) for number in range(len(backends))]
        for server, backend in zip(self.servers, backends, strict=True):
            backend.host = server
            server.process.clock_ahead_s = self._some_clock(server.name)
            server.begin(backend)
        self.brokers.clock_ahead_s = self._some_clock("log")
        for topic in (self.votes_topic, self.catalogue_topic, self.purchases_topic):
            self.brokers.create(topic)

    @property
    def changes(self) -> int:
        """Return a number that grows with each change of the servers' data, the log and its groups."""
        return self.brokers.changes + sum(server.changes for server in self.servers)

    def log(self, topic: Topic, partition: int) -> Partition:
        return self.brokers.partitions[topic.name, partition]

    def process(self, name: str) -> SimulatedProcess:
        return self.loop.process(name, self._some_clock(name))

    def _some_clock(self, name: str) -> float:
        bound = self.faults.clocks_s
        return self.streams[f"{name}: clock"].uniform(-bound, bound)

    def kill(self, process: SimulatedProcess) -> None:
        self.note(f"{process.name} is killed")
        self.loop.kill(process)
        for group in self.brokers.groups.values():
            group.silent(process)

    def freeze(self, process: SimulatedProcess) -> None:
        if self.faults.are_over:  # a scenario goes on
            return
        self.note(f"{process.name} freezes")
        process.is_frozen = True
        for group in self.brokers.groups.values():
            group.silent(process)

    def thaw(self, process: SimulatedProcess) -> None:
        if process.is_frozen:
            self.note(f"{process.name} thaws")
            self.loop.thaw(process)
            for group in self.brokers.groups.values():
                group.back(process)

    def writer(self, process: SimulatedProcess) -> SimulatedWriter:
        """Return a writer of the votes' log for a client that appends by itself."""
        return SimulatedWriter(process, self, VotesLog(NAMESPACE, self.shape.partitions).place)

    def at_moment(
        self, what: str, number: int, do: Callable[[SimulatedProcess], None], of: Service | None = None
    ) -> None:
        """Call `do` with the process whose call it is when the call `what` has come so many times from now on.

        `of`: only the calls of that service count.
        """
        self._moments.append(_Moment(what, number, do, of))

    def moment(self, what: str, process: SimulatedProcess) -> None:
        """Note that a process has made a call, which a server has executed."""
        for each in [each for each in self._moments if each.is_met(what, process)]:
            each.left -= 1
            if not each.left:
                self._moments.remove(each)
                each.do(process)

    def end_faults(self) -> None:
        """From now on servers and messages are well."""
        self.faults.end()
        self._moments.clear()
        for process in self.loop.processes:
            if not process.is_dead:
                self.thaw(process)
