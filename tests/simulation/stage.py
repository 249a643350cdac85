"""The stage of a scenario: requests to chosen gateways, faults at chosen moments, and reads of their effects."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any, Final

import hiredis

from libs.catalogue.resource_table import CONTESTS as CONTEST_ROW
from libs.catalogue.resource_table import PARTICIPANTS as PARTICIPANT_ROW
from libs.contracts.codec import vote_codec
from libs.contracts.topics import Topic, catalogue_topic, votes_topic
from libs.tally.errors import LogUnavailable
from libs.tally.events import Event, VoteRestored, VoteVoided
from libs.tally.vote_commands import CastVote, RemoveVote
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.generations.generations import Generations, ProjectionName, projections_of
from libs.views.votes.reply_types import PartitionState
from libs.voting.source_reports import SourceReport
from tests.simulation import clients, sources
from tests.simulation.contests import CONTESTS, OTHERS, PARTICIPANTS, VOTERS, participant_key
from tests.simulation.deployment import ACCOUNT, NAMESPACE, Gateway, Service
from tests.simulation.observer import Observer
from tests.simulation.replays import Rebuild
from tests.simulation.simulated_log import AppendFaults
from tests.simulation.simulated_valkey import SimulatedServer
from tests.simulation.virtual_loop import BEGIN_S, SimulatedProcess
from tests.support.builders import a_ballot, a_rating, a_vote, content_hash, pseudonym
from tests.support.vote_views import VoteViews

if TYPE_CHECKING:
    from tests.simulation.world import World

CONTEST: Final = CONTESTS[0]
MOMENT_S: Final = 7.0
"""Time after which a moment is not waited for any more: faults may have prevented it."""
MILLION: Final = 1_000_000


async def _patch_status(key: str, status: str, at: Gateway) -> Any:
    return await at.records.patch(PARTICIPANT_ROW, ACCOUNT, key, {"status": status})


class Stage:
    """What a scenario acts with. `first` and `second` are gateways, the same one if there is only one."""

    def __init__(self, world: "World", rng: Random) -> None:
        self.world = world
        self.rng = rng
        self.first, self.second = world.gateways[0], world.gateways[-1]
        self.votes = VoteViews(Observer(world), NAMESPACE, world.partitions)
        self.client = world.loop.process("scenario")
        self.voter = VOTERS[rng.randrange(len(VOTERS))][0]
        self.others = list(OTHERS)
        self._numbers = count()

    # requests

    def vote(
        self, vote_id: str = "vote", participant: str = "a", votes: int = 1, both: bool = False, **changes: Any
    ) -> CastVote:
        """Return a vote of the voter, of the contest's kind; a ballot of `both` participants."""
        its: dict[str, Any] = {"contest": CONTEST, "voter": self.voter, "vote_id": vote_id, **changes}
        name = participant_key(CONTEST, participant)
        match self.world.kinds[CONTEST]:
            case "rating":
                vote = a_rating(name, self.rng.randrange(1, 5) * MILLION, **its)
            case "ordering":
                second = [("2nd", participant_key(CONTEST, "b"))] if both else []
                vote = a_ballot(("1st", name), *second, **its)
            case _:
                vote = a_vote(name, votes, **its)
        return vote._replace(content=content_hash(vote.content, vote.source))

    def cast(self, vote: CastVote, gateway: Gateway | None = None, tries: int = 1) -> "asyncio.Task[Any]":
        return clients.start(self.world, self._name("cast"), self.rng, vote, False, gateway, tries)

    def batch(self, votes: list[CastVote]) -> None:
        clients.cast_together(self.world, self._name("batch"), self.rng, votes)

    async def warm(self, *gateways: Gateway) -> None:
        """Have gateways cast votes of others in the voter's partition, so that they know its configuration."""
        for gateway in gateways:
            other = next(name for name in self.others if self.partition_of(name) == self.partition)
            self.others.remove(other)
            await self.cast(self.vote("warm", voter=other), gateway, 3)

    def refund(self, vote: CastVote, gateway: Gateway | None = None) -> "asyncio.Task[Any]":
        return clients.start(self.world, self._name("refund"), self.rng, vote, True, gateway, 2)

    def remove(self, vote: CastVote, gateway: Gateway | None = None, tries: int = 1) -> "asyncio.Task[Any]":
        removal = RemoveVote(CONTEST, vote.voter, vote.vote_id)
        return clients.start(self.world, self._name("removal"), self.rng, removal, False, gateway, tries)

    def patch(self, gateway: Gateway | None = None, tries: int = 20, **config: Any) -> "asyncio.Task[Any]":
        """Change the contest's configuration."""
        patch: dict[str, Any] = {"contest_config": config}
        return clients.operate(
            self.world,
            self._name("patch"),
            self.rng,
            CONTEST,
            lambda at: at.records.patch(CONTEST_ROW, ACCOUNT, CONTEST, patch),
            gateway,
            tries,
        )

    def report(
        self, source: str, report: SourceReport, gateway: Gateway | None = None, tries: int = 1
    ) -> "asyncio.Task[Any]":
        name = self._name("report")
        return sources.send(self.world, name, self.rng, CONTEST, source, report, gateway, tries)

    def rebuild(self, projection: ProjectionName, **options: Any) -> Rebuild:
        """Start an operator's replay."""
        return Rebuild(self.world, self._name("replay"), self.rng, projection, **options)

    def read(self, gateway: Gateway) -> None:
        """Read the contest's record."""
        clients.read(self.world, self._name("read"), self.rng, CONTEST, gateway)

    async def set_statuses(self, status: str) -> None:
        """Approve or reject all participants."""
        for name in PARTICIPANTS:
            key = participant_key(CONTEST, name)
            work = partial(_patch_status, key, status)
            await clients.operate(self.world, self._name("status"), self.rng, CONTEST, work, tries=20)

    def delete(self) -> "asyncio.Task[Any]":
        return clients.delete(self.world, self._name("deletion"), self.rng, CONTEST)

    def reopen(self, seconds: float) -> "asyncio.Task[Any]":
        end = round((BEGIN_S + self.now + seconds) * MILLION)
        return clients.operate(
            self.world,
            self._name("reopening"),
            self.rng,
            CONTEST,
            lambda at: at.reopener.reopen(ACCOUNT, CONTEST, end),
        )

    async def append(self, *events: Event) -> None:
        """Append to the votes' log of the voter's partition, as an operator's command or another manager does."""
        topic = votes_topic(NAMESPACE, self.world.partitions)
        writer = self.world.deployment.writer(self.client)
        for event in events:
            self.world.note(f"appends {event}"[:200])
            with suppress(LogUnavailable):  # nothing here needs the record
                await writer.append(topic.name, self.partition, vote_codec.encode(event), b"")

    async def spoil(self, topic: Topic, partition: int) -> None:
        """Append what cannot be decoded."""
        writer = self.world.deployment.writer(self.client)
        self.world.note(f"spoils {topic.name}/{partition}")
        with suppress(LogUnavailable):
            await writer.append(topic.name, partition, self.rng.choice([b"{", b"no JSON", b'{"type":7}']), b"")

    def voiding(self, vote: CastVote, operation: str = "void0") -> VoteVoided:
        self.world.voided.add((operation, CONTEST, vote.voter, vote.vote_id))
        return VoteVoided(CONTEST, vote.voter, vote.vote_id, operation, 0)

    def restoring(self, vote: CastVote, operation: str = "void0") -> VoteRestored:
        return VoteRestored(CONTEST, vote.voter, vote.vote_id, operation, 0)

    def _name(self, what: str) -> str:
        return f"{what}.{next(self._numbers)}"

    # time and moments

    @property
    def now(self) -> float:
        return self.world.loop.now

    async def pause(self, least: float, most: float | None = None) -> None:
        await asyncio.sleep(self.rng.uniform(least, least if most is None else most))

    async def until(self, holds: Callable[[], Coroutine[Any, Any, bool]], timeout_s: float = 6.0) -> bool:
        """Wait until it holds, by the servers' data, the log and its groups; False after the timeout."""
        deadline, seen = self.now + timeout_s, -1
        while self.now <= deadline:
            if seen != (seen := self.world.deployment.changes):
                with suppress(hiredis.ReplyError):  # a server that was emptied
                    if await holds():
                        return True
            await asyncio.sleep(0.005)
        return False

    def when(self, what: str, of: Service, do: Callable[[], None], number: int = 1) -> "asyncio.Future[None]":
        """Do something at once when a server has executed a service's `number`-th call from now on.

        The service has no reply yet. The result is complete then, or after `MOMENT_S`.
        """
        loop, met = self.world.loop, self.world.loop.create_future()
        left = number

        def reached(process: SimulatedProcess) -> None:
            nonlocal left
            left -= process is of.process
            if left > 0:
                self.world.deployment.at_moment(what, 1, reached)
                return
            with loop.acting(loop.network):
                do()
            loop.deliver(self.client, 0.0, end)

        def end() -> None:
            if not met.done():
                met.set_result(None)

        self.world.deployment.at_moment(what, 1, reached)
        loop.deliver(self.client, MOMENT_S, end)
        return met

    def freeze_at(self, what: str, of: Service, length_s: float = 60.0, number: int = 1) -> "asyncio.Future[None]":
        """Freeze a service when its call was executed, before it has the reply."""
        return self.when(what, of, lambda: self.world.freeze(of.process, length_s), number)

    def thaw(self, service: Service) -> None:
        self.world.deployment.thaw(service.process)

    # servers and partitions

    @property
    def partition(self) -> int:
        return self.partition_of(self.voter)

    def partition_of(self, voter: str) -> int:
        return votes_topic(NAMESPACE, self.world.partitions).partition_of(pseudonym(voter))

    @property
    def server(self) -> SimulatedServer:
        """The server of the voter's partition."""
        return self.server_of(self.voter)

    def generations(self, projection: ProjectionName) -> Generations:
        return projections_of(Observer(self.world), NAMESPACE, self.world.partitions)[projection]

    def server_of(self, voter: str) -> SimulatedServer:
        return Observer(self.world).server(self.votes._base(self.partition_of(voter)))

    @property
    def catalogue(self) -> int:
        """The partition of the contest's records."""
        return catalogue_topic(NAMESPACE).partition_of(ACCOUNT)

    def owner(self, topic: str, partition: int) -> Service | None:
        """Return the projector that folds a partition."""
        for group in self.world.deployment.brokers.groups.values():
            for member in group._members:
                if member.topic.name == topic and partition in member._positions:
                    return self.world.service_of(member.process)
        return None

    def is_in_catalogue(self, text: bytes) -> bool:
        """Return whether a record of the catalogue's log contains a text."""
        log = self.world.deployment.brokers.partitions[catalogue_topic(NAMESPACE).name, self.catalogue]
        return any(text in record.value for record in log.records)

    @property
    def fencer(self) -> Service:
        """The projector of the voter's partition."""
        found = self.owner(votes_topic(NAMESPACE, self.world.partitions).name, self.partition)
        return found or self.world.projectors[0]

    @property
    def manager(self) -> Service:
        """The projector of the contest's records."""
        return self.owner(catalogue_topic(NAMESPACE).name, self.catalogue) or self.world.projectors[0]

    def choose_apart_by_server(self) -> None:
        """Choose a voter whose partition and the contest's records are on different servers, if any is."""
        views = CatalogueViews(Observer(self.world), NAMESPACE)
        server = Observer(self.world).server(views.generations.base(self.catalogue))
        self.voter = next((name for name, _ in VOTERS if self.server_of(name) is not server), self.voter)

    def choose_apart_by_projector(self) -> None:
        """Choose a voter whose partition and the contest's records have different projectors, if any has."""
        names = [name for name, _ in VOTERS]
        self.rng.shuffle(names)
        while names:
            self.voter = names.pop()
            if self.fencer is not self.manager:
                return

    def fail(self, data: Any = None, back_s: float = 0.0, kind: str = "promotion") -> None:
        """The server of the voter's partition is replaced: by one that has `data`, or by itself."""
        with self.world.loop.acting(self.world.loop.network):
            self.world.fail(self.server, kind if data is not None else "restart", data, back_s)

    def step_clock(self, seconds: float) -> None:
        """The clock of the server of the voter's partition steps."""
        self.world.note(f"{self.server.name}: the clock steps by {seconds:.3f} s")
        self.world.step_clock(self.server, seconds)

    def demand(self, holds: bool, otherwise: str) -> None:
        """Break a promise unless it holds; other faults may be the cause if the scenario is not alone."""
        if not holds and self.world.is_alone:
            self.world.broken.append(otherwise)

    async def state(self) -> PartitionState:
        while True:
            try:
                return await self.votes.state(self.partition)
            except hiredis.ReplyError:  # a server that was emptied
                await asyncio.sleep(0.05)

    async def fenced(self, since: int, timeout_s: float = 6.0) -> bool:
        """Wait until the gate is open by a later fence than `since`."""

        async def holds() -> bool:
            state = await self.state()
            return state.open and state.incarnation > since

        return await self.until(holds, timeout_s)

    @contextmanager
    def faulty(self, loss: float = 0.0, refused: float = 0.0, doubled: float = 0.0) -> Iterator[None]:
        """Within, messages are lost, or appends refused or doubled."""
        faults = self.world.deployment.faults
        former = faults.message_loss, faults.appends
        faults.message_loss, faults.appends = loss, AppendFaults(refused=refused, doubled=doubled)
        try:
            yield
        finally:
            faults.message_loss, faults.appends = former
