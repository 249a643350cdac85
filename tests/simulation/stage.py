"""The stage of a scenario: requests to chosen gateways, faults at chosen moments, and reads of their effects."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from inspect import isawaitable
from itertools import count
from random import Random
from typing import Any, Final

import hiredis

from libs.catalogue.resource_table import CONTESTS as CONTEST_ROW
from libs.catalogue.resource_table import PARTICIPANTS as PARTICIPANT_ROW
from libs.contracts.codec import vote_codec
from libs.contracts.topics import Topic
from libs.tally.errors import LogUnavailable
from libs.tally.events import Event, VoteRestored, VoteVoided
from libs.tally.vote_commands import CastVote, RemoveVote
from libs.views.generations.generations import ProjectionName
from libs.views.votes.reply_types import PartitionState
from libs.voting.source_reports import SourceReport
from tests.simulation import clients, sources
from tests.simulation.clients import Client, Task, Work
from tests.simulation.contests import CONTESTS, OTHERS, PARTICIPANTS, VOTERS, limits, moment, participant_key
from tests.simulation.deployment import ACCOUNT, Gateway, Service
from tests.simulation.replays import Rebuild
from tests.simulation.simulated_log import AppendFaults, Partition
from tests.simulation.simulated_valkey import SimulatedServer
from tests.simulation.virtual_loop import SimulatedProcess, set_result
from tests.support.builders.contests import a_ballot, a_rating, a_vote, content_hash, pseudonym

CONTEST: Final = CONTESTS[0]
MOMENT_S: Final = 7.0
"""Time after which a moment is not waited for any more: faults may have prevented it."""
MILLION: Final = 1_000_000


class Stage:
    """What a scenario acts with. `first` and `second` are gateways, the same one if there is only one."""

    def __init__(self, client: Client) -> None:
        self.world = client.world
        self.rng = client.rng
        self.client = client
        self.first, self.second = self.world.gateways[0], self.world.gateways[-1]
        self.votes = self.world.vote_views
        self.voter = VOTERS[self.rng.randrange(len(VOTERS))][0]
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

    def cast(self, vote: CastVote, gateway: Gateway | None = None, tries: int = 1) -> Task:
        return clients.start(self._client("cast"), vote, False, gateway, tries)

    async def hold(self, vote: CastVote, gateway: Gateway, tries: int = 1, at: str = "votes_reserve") -> None:
        """Send a vote to a gateway that freezes at one of its calls."""
        frozen = self.freeze_at(at, gateway)
        self.cast(vote, gateway, tries)
        await frozen

    async def cast_in_turn(self, *votes: CastVote) -> None:
        for vote in votes:
            await self.cast(vote, None, 3)

    async def cast_several(
        self,
        number: int,
        gateway: Gateway | None = None,
        tries: int = 1,
        *,
        pause: tuple[float, float],
        name: str = "vote",
    ) -> None:
        """Send votes with a pause after each, without waiting for their answers."""
        for at in range(number):
            self.cast(self.vote(f"{name}{at}"), gateway, tries)
            await self.pause(*pause)

    def batch(self, votes: list[CastVote]) -> None:
        clients.cast_together(self._client("batch"), votes)

    async def warm(self, *gateways: Gateway) -> None:
        """Have gateways cast votes of others in the voter's partition, so that they know its configuration."""
        for gateway in gateways:
            other = next(name for name in self.others if self.partition_of(name) == self.partition)
            self.others.remove(other)
            await self.cast(self.vote("warm", voter=other), gateway, 3)

    def refund(self, vote: CastVote) -> Task:
        return clients.start(self._client("refund"), vote, True, None, 2)

    def remove(self, vote: CastVote, gateway: Gateway | None = None, tries: int = 1) -> Task:
        removal = RemoveVote(CONTEST, vote.voter, vote.vote_id)
        return clients.start(self._client("removal"), removal, False, gateway, tries)

    def buy(self, name: str) -> None:
        clients.purchase(Client(self.world, name, Random(self.rng.random())))

    def patch(self, gateway: Gateway | None = None, tries: int = 20, **config: Any) -> Task:
        """Change the contest's configuration."""
        patch: dict[str, Any] = {"contest_config": config}
        return self._operate(
            "patch", lambda at: at.records.patch(CONTEST_ROW, ACCOUNT, CONTEST, patch), gateway, tries
        )

    def limit(self, most: int, gateway: Gateway | None = None, tries: int = 20) -> Task:
        """Change the limit on a voter's free votes."""
        return self.patch(gateway, tries, free=limits(most))

    async def end_in(self, least_s: float, most_s: float) -> float:
        """Let the contest end soon; return when."""
        end = self.now + self.rng.uniform(least_s, most_s)
        await self.patch(end=moment(end))
        return end

    def report(self, source: str, report: SourceReport, gateway: Gateway | None = None, tries: int = 1) -> Task:
        return sources.send(self._client("report"), CONTEST, source, report, gateway, tries)

    async def retire(self, source: str) -> None:
        await sources.patch(Client(self.world, "retire", self.rng), CONTEST, source, {"retired": True}, 20)

    def rebuild(self, projection: ProjectionName, **options: Any) -> Rebuild:
        """Start an operator's replay."""
        return Rebuild(self._client("replay"), projection, **options)

    def read(self, gateway: Gateway) -> None:
        """Read the contest's record."""
        clients.read(self._client("read"), CONTEST, gateway)

    async def set_statuses(self, status: str) -> None:
        """Approve or reject all participants."""
        for name in PARTICIPANTS:
            patch = partial(_patch_status, participant_key(CONTEST, name), status)
            await self._operate("status", patch, None, 20)

    def delete(self) -> Task:
        return clients.delete(self._client("deletion"), CONTEST)

    def reopen(self, seconds: float) -> Task:
        return clients.reopen_for(self._client("reopening"), CONTEST, seconds)

    def _operate(self, what: str, work: Work, gateway: Gateway | None, tries: int) -> Task:
        return clients.operate(self._client(what), CONTEST, work, gateway, tries)

    def _client(self, what: str) -> Client:
        return Client(self.world, f"{what}.{next(self._numbers)}", self.rng)

    async def append(self, *events: Event) -> None:
        """Append to the votes' log of the voter's partition, as an operator's command or another manager does."""
        for event in events:
            await self._append(self.world.votes_topic, self.partition, vote_codec.encode(event), f"{event}")

    async def spoil(self, topic: Topic, partition: int) -> None:
        """Append what cannot be decoded."""
        await self._append(topic, partition, self.rng.choice([b"{", b"no JSON", b'{"type":7}']), "what spoils it")

    async def _append(self, topic: Topic, partition: int, value: bytes, what: str) -> None:
        self.world.note(f"appends {what} to {topic.name}/{partition}"[:200])
        with suppress(LogUnavailable):  # nothing here needs the record
            await self.world.deployment.writer(self.client.process).append(topic.name, partition, value, b"")

    def voiding(self, vote: CastVote, operation: str = "void0") -> VoteVoided:
        self.world.voided.add((operation, CONTEST, vote.voter, vote.vote_id))
        return VoteVoided(CONTEST, vote.voter, vote.vote_id, operation, 0)

    def restoring(self, vote: CastVote, operation: str = "void0") -> VoteRestored:
        return VoteRestored(CONTEST, vote.voter, vote.vote_id, operation, 0)

    # time and moments

    @property
    def now(self) -> float:
        return self.world.loop.now

    async def pause(self, least: float, most: float | None = None) -> None:
        await asyncio.sleep(self.rng.uniform(least, least if most is None else most))

    async def sleep_until(self, at: float) -> None:
        await asyncio.sleep(max(0.0, at - self.now))

    async def until(self, holds: Callable[[], Any], timeout_s: float = 6.0) -> None:
        """Wait until it holds, by the servers' data, the log and its groups, or until the timeout."""
        deadline, seen = self.now + timeout_s, -1
        while self.now <= deadline:
            if seen != (seen := self.world.deployment.changes):
                with suppress(hiredis.ReplyError):  # a server that was emptied
                    held = holds()
                    if await held if isawaitable(held) else held:
                        return
            await asyncio.sleep(0.005)

    def when(self, what: str, of: Service, do: Callable[[], None], number: int = 1) -> "asyncio.Future[None]":
        """Do something at once when a server has executed a service's `number`-th call from now on.

        The service has no reply yet. The result is complete then, or after `MOMENT_S`.
        """
        loop, met = self.world.loop, self.world.loop.create_future()

        def reached(_: SimulatedProcess) -> None:
            with loop.acting(loop.network):
                do()
            loop.deliver(self.client.process, 0.0, set_result, met, None)

        self.world.deployment.at_moment(what, number, reached, of)
        loop.deliver(self.client.process, MOMENT_S, set_result, met, None)
        return met

    def call(self, what: str, of: Service) -> "asyncio.Future[None]":
        """Wait until a server has executed a service's call."""
        return self.when(what, of, lambda: None)

    def freeze_at(self, what: str, of: Service, length_s: float = 60.0, number: int = 1) -> "asyncio.Future[None]":
        """Freeze a service when its call was executed, before it has the reply."""
        return self.when(what, of, lambda: self.world.freeze(of.process, length_s), number)

    def kill_at(self, what: str, of: Service, back_s: float, number: int = 1) -> "asyncio.Future[None]":
        """Kill a service when its call was executed; it starts again later."""
        return self.when(what, of, lambda: self.world.restart_later(of, back_s), number)

    def thaw(self, service: Service) -> None:
        self.world.deployment.thaw(service.process)

    async def thaw_amid(self, service: Service, **faults: float) -> None:
        """Thaw a service while messages are lost, or appends refused."""
        with self.faulty(**faults):
            self.thaw(service)
            await self.pause(0.02, 0.2)

    def restart_projectors(self) -> None:
        for projector in self.world.projectors:
            self.world.restart_later(projector, 0.1)

    # servers and partitions

    @property
    def partition(self) -> int:
        return self.partition_of(self.voter)

    def partition_of(self, voter: str) -> int:
        return self.world.votes_topic.partition_of(pseudonym(voter))

    @property
    def server(self) -> SimulatedServer:
        """The server of the voter's partition."""
        return self.server_of(self.voter)

    def server_of(self, voter: str) -> SimulatedServer:
        return self.world.server_of(self.partition_of(voter))

    @property
    def log(self) -> Partition:
        """The votes' log of the voter's partition."""
        return self.world.deployment.log(self.world.votes_topic, self.partition)

    @property
    def catalogue_log(self) -> Partition:
        """The log of the contest's records."""
        return self.world.deployment.log(self.world.catalogue_topic, self.catalogue)

    def hold_back(self, log: Partition, least_s: float, most_s: float) -> float:
        """Let no projector receive the records of a log for a while; return for how long."""
        length_s = self.rng.uniform(least_s, most_s)
        log.unfetched_until = self.now + length_s
        return length_s

    @property
    def catalogue(self) -> int:
        """The partition of the contest's records."""
        return self.world.catalogue_topic.partition_of(ACCOUNT)

    def projector_of(self, topic: Topic, partition: int) -> Service:
        process = self.world.deployment.brokers.owner(topic, partition)
        found = None if process is None else self.world.service_of(process)
        return found or self.world.projectors[0]

    @property
    def fencer(self) -> Service:
        """The projector of the voter's partition."""
        return self.projector_of(self.world.votes_topic, self.partition)

    @property
    def manager(self) -> Service:
        """The projector of the contest's records."""
        return self.projector_of(self.world.catalogue_topic, self.catalogue)

    def choose_apart_by_server(self) -> None:
        """Choose a voter whose partition and the contest's records are on different servers, if any is."""
        base = self.world.catalogue_views.generations.base(self.catalogue)
        server = self.world.observer.server(base)
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

    async def cut_power(self, count: int, data: Any = None) -> None:
        """End all processes at once; the voter's partition loses its last records, and its server comes back with
        older `data`, if any."""
        state = await self.votes.state(self.partition)
        with self.world.loop.acting(self.world.loop.network):
            folded = state.position.offset if data is None else None
            self.world.cut_power(self.partition, count, folded, lambda: self.rng.uniform(0.05, 1.5))
            if data is not None:
                self.world.fail(self.server, "restore", data, 0.05)

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

    async def fence_epoch(self) -> int:
        return (await self.state()).incarnation

    async def fenced(self, since: int, timeout_s: float = 6.0) -> None:
        """Wait until the gate is open by a later fence than `since`."""

        async def holds() -> bool:
            state = await self.state()
            return state.open and state.incarnation > since

        await self.until(holds, timeout_s)

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


async def _patch_status(key: str, status: str, at: Gateway) -> Any:
    return await at.records.patch(PARTICIPANT_ROW, ACCOUNT, key, {"status": status})
