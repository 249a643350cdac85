"""One schedule: a deployment, what its clients do and what goes wrong, all from one seed."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from libs.catalogue.commands import WriteRequest
from libs.catalogue.contests.vote_sources import source_key
from libs.catalogue.resource_table import CONTESTS as CONTEST_ROW
from libs.catalogue.resource_table import PARTICIPANTS as PARTICIPANT_ROW
from libs.catalogue.resource_table import VOTE_SOURCES
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.generations.generations import Generations, ProjectionName, projections_of
from libs.views.purchases.purchase_views import PurchaseViews
from tests.simulation import sources
from tests.simulation.answers import Answer, Bought, Lost, Name, Read, Reported, Violation
from tests.simulation.clients import Client
from tests.simulation.contests import CONTESTS, PARTICIPANTS, participant_key, some_contest
from tests.simulation.deployment import (
    ACCOUNT,
    NAMESPACE,
    Deployment,
    Gateway,
    ProjectorProcess,
    Service,
    Shape,
)
from tests.simulation.faults import Streams
from tests.simulation.memory_valkey import WITH_EVENTS, Backend
from tests.simulation.observer import Observer
from tests.simulation.plan import ACTIVE_S, Item, plan
from tests.simulation.replays import Rebuild
from tests.simulation.scenarios import some_scenario
from tests.simulation.simulated_valkey import SimulatedServer
from tests.simulation.virtual_loop import BEGIN_S, SimulatedProcess, VirtualLoop
from tests.support.clients.vote_views import VoteViews

SETTLE_S: Final = 60.0
"""Time after the faults by which all has settled."""
PURCHASES: Final = 0.2
"""Share of the schedules with purchases, whose managers cost most."""
ALONE: Final = 0.7
"""Share of the scenarios that no random requests and faults disturb."""
READS: Final = 0.2
"""Share of the schedules with reads of votes."""
SOURCES: Final = 0.1
"""Share of the schedules without a scenario whose contests have external sources."""
REPLAYS: Final = 0.1
"""Share of the schedules without a scenario in which views are rebuilt."""


def some_shape(streams: Streams, shards: int) -> Shape:
    """Return the shape of a schedule without a scenario; a cluster has all `shards`."""
    rng = streams["shape"]
    return Shape(
        partitions=rng.choice([1, 2]),
        servers=1 if rng.random() < 0.7 else shards,
        gateways=rng.choice([1, 2, 2]),
        projectors=rng.choice([1, 2]),
        has_purchases=streams["purchases"].random() < PURCHASES,
        has_replays=streams["replays"].random() < REPLAYS,
        has_sources=streams["sources"].random() < SOURCES,
    )


class World:
    """A deployment in use."""

    def __init__(
        self, loop: VirtualLoop, streams: Streams, backends: Sequence[Backend], without: frozenset[str]
    ) -> None:
        """A cluster uses all `backends`; `without` names items of the plan that are left out."""
        self.streams = streams
        self.loop = loop
        self.history: list[str] = []
        shape = some_shape(streams, len(backends))
        self.scenario = some_scenario(streams)
        self.shape: Shape = self.scenario or shape
        self.is_alone = self.scenario is not None and (
            streams["scenario"].random() < ALONE or bool(self.scenario.newer)
        )
        """True if nothing but the scenario happens, as in an upgrade: data from before it needs another replay."""
        self.partitions = self.shape.partitions
        used = backends[: self.shape.servers]
        self.deployment = Deployment(loop, streams, used, self.note, self.shape, is_mild=self.is_alone)
        self.votes_topic, self.catalogue_topic = self.deployment.votes_topic, self.deployment.catalogue_topic
        self.rebuilds: list[Rebuild] = []
        self.gateways = [Gateway(self.deployment, f"gateway{n}") for n in range(self.shape.gateways)]
        self.projectors = [
            ProjectorProcess(self.deployment, f"projector{n}") for n in range(self.shape.projectors)
        ]
        self.operator = self.client("operator")
        self.kinds: dict[str, str] = {}
        """The type of each contest."""
        self.answers: list[Answer] = []
        self.voided: set[tuple[str, str, str, str]] = set()
        """Operation, and name of the vote that it voids."""
        self.changes: list[tuple[float, str, int]] = []
        """Time, contest and version of each change that was answered."""
        self.written: dict[str, int] = {}
        """By record the latest version that was answered."""
        self.has_failed = False
        """True if a server of the views has failed."""
        self.address_limit: int | None = None
        self.batches: list[list[Name]] = []
        """Votes of one voter that were sent in one request."""
        self.broken: list[str] = []
        """Promises that were seen broken meanwhile."""
        self.clocks: list[tuple[float, SimulatedServer, float]] = []
        """Times at which the clocks of servers stepped, and how far they were ahead before."""
        self.bought: list[Bought] = []
        self.has_reads = streams["reads"].random() < READS
        self.reads: list[Read] = []
        self.reports: list[Reported] = []
        self.deleted: set[str] = set()
        """Contests whose deletion was asked for."""
        self.lost: list[Lost] = []
        self.open_requests = 0
        self.plan: list[Item] = [item for item in plan(self) if item.name not in without]

    def note(self, text: str) -> None:
        self.history.append(f"{self.loop.now:8.3f} {self.loop.current.name:14} {text}")

    def clock_us(self, process: SimulatedProcess) -> int:
        """Return the time (us) by a process's clock."""
        return round((BEGIN_S + self.loop.now + process.clock_ahead_s) * 1_000_000)

    @property
    def unwanted(self) -> set[Name]:
        """Votes whose removal or refund was asked for."""
        return {answer.name for answer in self.answers if not answer.is_cast}

    @property
    def observer(self) -> Observer:
        return Observer(self)

    @property
    def vote_views(self) -> VoteViews:
        """The views of votes, read at once, without faults."""
        return VoteViews(self.observer, NAMESPACE, self.partitions)

    def server_of(self, partition: int) -> SimulatedServer:
        """Return the server that has a partition of the votes."""
        return self.observer.server(self.vote_views._base(partition))

    @property
    def projections(self) -> dict[ProjectionName, Generations]:
        return projections_of(self.observer, NAMESPACE, self.partitions)

    @property
    def catalogue_views(self) -> CatalogueViews:
        return CatalogueViews(self.observer, NAMESPACE)

    @property
    def purchase_views(self) -> PurchaseViews:
        return PurchaseViews(self.observer, NAMESPACE, self.deployment.purchases_topic)

    def begin(self) -> None:
        """Create the contests, and wait until votes are taken. Then the plan begins."""
        task = self.loop.start(self.operator.process, self._create())
        if not self.loop.run_until(task.done, 120.0):
            raise Violation(f"the contests could not be created: {self.deployment.crashes}")
        task.result()
        if self.scenario is not None and self.scenario.newer:
            newer = self.streams["newer version"].choice(self.scenario.newer)
            self.deployment.has_newer_events = newer == WITH_EVENTS
            for former in [*self.gateways, *self.projectors]:
                former.process.is_former = self.deployment.has_newer_events
            self.gateways.append(Gateway(self.deployment, "newer gateway", newer))
            self.projectors.append(ProjectorProcess(self.deployment, "newer projector", newer))
        self.began_at = self.loop.now
        self.note("---- begins")
        for item in self.plan:
            self.loop.call_at(self.began_at + item.at, self._do, item)

    def _do(self, item: Item) -> None:
        self.note(f"[{item.name}]")
        item.do()

    async def _create(self) -> None:
        most = 1 if self.is_alone else self.streams["shape"].choice([1, 1, 2])
        for number, contest in enumerate(CONTESTS[:most]):
            rng = self.streams[f"contest {contest}"]
            ends = number == 0 and self.scenario is None
            end_s = rng.choice([None, rng.uniform(1.5, ACTIVE_S)]) if ends else None
            document = some_contest(rng, end_s)
            if self.scenario is not None:
                document = self.scenario.document(rng, document)
            self.kinds[contest] = document["contest_type"]
            self.address_limit = document["contest_config"]["ip_restriction_per_participant"]
            await self._write(contest, document)
            for name in PARTICIPANTS:
                await self._write(participant_key(contest, name), {"status": "approved"}, parent=contest)
            for source in sources.SOURCES if self.shape.has_sources else ():
                rng = self.streams[f"{source} of {contest}"]
                registered = sources.registration(rng, contest, rng.choice(["cumulative", "cumulative", "delta"]))
                await self._write(source_key(contest, source), registered, contest, VOTE_SOURCES)

    async def _write(
        self, key: str, document: dict[str, Any], parent: str = "", row: Any = PARTICIPANT_ROW
    ) -> None:
        """Have a gateway write a record, until it could."""

        async def work(at: Gateway) -> Any:
            if parent:
                return await at.records.put(row, ACCOUNT, key, document, parent=parent)
            return await at.records.create(CONTEST_ROW, ACCOUNT, document, WriteRequest.once(), key=key)

        while True:
            result = await self.operator.ask(work)
            if result is not None and getattr(result, "code", "version_conflict") == "version_conflict":
                return
            await asyncio.sleep(0.1)

    # for the plan

    def client(self, name: str) -> Client:
        """Return a client that draws from a stream of its own."""
        return Client(self, name, self.streams[name])

    def some_contest(self, rng: Random) -> str:
        return rng.choice(list(self.kinds))

    def restart_later(self, victim: Service, delay_s: float) -> None:
        if not victim.process.is_dead:
            self.deployment.kill(victim.process)
            self.loop.call_later(delay_s, victim.start)

    def cut_power(self, partition: int, count: int, folded: int | None, back_s: Callable[[], float]) -> None:
        """End all processes at once; a partition of the votes loses its last records."""
        for service in self.services:
            self.restart_later(service, back_s())
        place = self.votes_topic.name, partition
        records = list(self.deployment.brokers.partitions[place].records)
        lost = self.deployment.brokers.lose(place, count)
        self.note(f"{self.votes_topic.name}/{partition} loses {len(lost)} records")
        self.lost.append(Lost(partition, self.loop.now, len(records) - len(lost), records, folded))

    def freeze(self, process: SimulatedProcess, length_s: float) -> None:
        if not process.is_dead and not process.is_frozen:
            self.deployment.freeze(process)
            self.loop.call_later(length_s, self.deployment.thaw, process)

    def end_upgrade(self) -> None:
        """Stop the processes of the former version, once the views have the layouts of the newer one."""
        for each in [*self.gateways, *self.projectors]:
            if not each.newer and not each.process.is_dead:
                self.deployment.kill(each.process)
        self.gateways = [each for each in self.gateways if each.newer]
        self.projectors = [each for each in self.projectors if each.newer]
        self.deployment.live_version = self.gateways[0].newer

    def step_clock(self, server: SimulatedServer, seconds: float) -> None:
        self.clocks.append((self.loop.now, server, server.process.clock_ahead_s))
        server.process.clock_ahead_s += seconds

    @property
    def services(self) -> list[Service]:
        return [*self.gateways, *self.projectors, *self.rebuilds]

    def service_of(self, process: SimulatedProcess) -> Service | None:
        """Return the gateway or projector that runs in a process."""
        return next((each for each in self.services if each.process is process), None)

    def fail(self, server: SimulatedServer, kind: str, data: Any, back_s: float) -> None:
        """Stop a server of the views; it is back later, with older `data` unless that is None."""
        self.has_failed = True
        if server.is_up and not self.deployment.faults.are_over:
            self.note(f"{server.name} stops: {kind}")
            server.stop()
            is_other, is_empty = kind != "restart", kind == "empty"
            self.loop.call_later(back_s, lambda: server.restart(data, is_other=is_other, is_empty=is_empty))

    # the end

    def settle(self, unsettled: Callable[["World"], str]) -> None:
        """End all faults, and wait until there is nothing left to do, as `unsettled` says."""
        if self.loop.now < self.began_at + ACTIVE_S + 2.0:
            self.loop.run_until(lambda: False, self.began_at + ACTIVE_S + 2.0)
            self.note("---- faults end")
            self.deployment.end_faults()
        deadline = self.loop.now + SETTLE_S
        while left := f"{self.open_requests} requests are open" if self.open_requests else unsettled(self):
            if self.loop.now >= deadline:
                raise Violation(f"not settled after {SETTLE_S} s: {left}")
            self.loop.run_until(lambda: False, self.loop.now + 0.1)
        self.note("---- settled")
