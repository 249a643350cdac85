"""A deployment whose projector runs in the test's process: a test says when it runs, and what it did before."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from libs.catalogue.contests.contest_mapper import contest_of
from libs.catalogue.contests.reopening import Reopener
from libs.catalogue.contests.vote_sources import source_key
from libs.catalogue.resource_table import CONTESTS, PARTICIPANTS, VOTE_SOURCES
from libs.contracts.catalogue_events import Stored
from libs.contracts.codec import vote_codec
from libs.contracts.topics import Topic, VotesLog, source_log_key, topics_of, votes_topic
from libs.deployment.deployment import open_deployment
from libs.kafka.reader import Extent, LogReader
from libs.tally.admission import Selection, judge
from libs.tally.contest import Contest
from libs.tally.errors import ViewsUnavailable
from libs.tally.events import ContestClosed, ContestReopened, Event
from libs.tally.reservations import Granted, Request, cast_of
from libs.tally.time_conversion import timestamp
from libs.tally.voter_ledger import VoteStatus
from libs.views.valkey.hash_tags import key_base
from libs.views.votes.reply_types import ClosingState
from libs.voting.protocol.shared_steps import Accepted, Outcome
from libs.voting.service import VotingService, create_voting_service
from services.projector.app import run
from services.projector.settings import Settings
from tests.support.builders.catalogue import Catalogue, open_catalogue
from tests.support.builders.contests import a_vote
from tests.support.clients.vote_views import VoteViews
from tests.support.eventually import eventually
from tests.support.servers.permissive_guard import Unguarded
from tests.support.servers.topics import new_topics

ACCOUNT = "acme"
PARTITIONS = 2
LONG_AGO = "2020-01-01T00:00:00Z"
SECOND = 1_000_000
HOUR = 3600 * SECOND


@dataclass
class ProjectorEnvironment:
    """Contests of one account, and all votes."""

    settings: Settings
    topic: Topic
    catalogue: Catalogue
    votes: VoteViews
    voting: VotingService
    reader: LogReader
    ids: int = 0

    @asynccontextmanager
    async def projecting(self, **settings: Any) -> AsyncIterator[None]:
        """While the context is open, and its gates are."""
        task = asyncio.create_task(run(self.settings.model_copy(update=settings)))
        try:
            await eventually(self.gates_are_open)
            await eventually(self.catalogue.is_fresh)
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def gates_are_open(self) -> bool:
        return all([(await self.votes.state(partition)).open for partition in range(PARTITIONS)])

    async def now(self) -> int:
        """By the clock that decides (us)."""
        return (await self.votes.state(0)).now

    async def contest(self, end: int | None, participants: int = 2, **config: Any) -> str:
        """A contest that has been running for long, with approved participants p0, p1, ..."""
        rules = {"start": LONG_AGO, "end": timestamp(end)} | config
        made = await self.catalogue.create("contests", ACCOUNT, {"publish": LONG_AGO, "contest_config": rules})
        for number in range(participants):
            await self.participant(made.key, f"p{number}")
        return made.key

    async def change(self, contest: str, **members: Any) -> Stored:
        return await self.catalogue.record_service.patch(CONTESTS, ACCOUNT, contest, members)

    async def ends(self, contest: str) -> int:
        """Let the contest end in a second, now that all before its end is done; return the end (us)."""
        end = await self.now() + SECOND
        await self.change(contest, contest_config={"end": timestamp(end)})
        return end

    async def end(self, contest: str, seq: int = 1) -> None:
        """Let the contest end in a second; return when it is closed, and nothing is due."""
        await self.ends(contest)
        await self.closes(contest, seq)
        await self.settles(contest)

    async def reopens(self, contest: str, end: int) -> None:
        """Reopen the contest; sent again while a busy machine has not folded it in time."""

        async def is_reopened() -> bool:
            with suppress(ViewsUnavailable):
                await self.reopener.reopen(ACCOUNT, contest, end)
                return True
            return False

        await eventually(is_reopened)

    async def participant(self, contest: str, name: str) -> None:
        key, body = f"{contest}-{name}", {"status": "approved"}
        await self.catalogue.record_service.put(PARTICIPANTS, ACCOUNT, key, body, parent=contest)

    async def source(self, contest: str, name: str, **members: Any) -> None:
        key = source_key(contest, name)
        await self.catalogue.record_service.put(VOTE_SOURCES, ACCOUNT, key, members, parent=contest)

    async def vote(self, contest: str, name: str = "p0") -> bool:
        """One vote of a voter of its own; whether it was accepted."""
        return isinstance(await self.cast(contest, name), Accepted)

    async def vote_until_refused(self, contest: str) -> int:
        """Voters without a pause; how many were accepted."""
        accepted = 0
        while any(votes := await asyncio.gather(*(self.vote(contest) for _ in range(8)))):
            accepted += sum(votes)
        return accepted

    async def admit(self, contest: str) -> tuple[int, Event]:
        """A vote that is admitted and not recorded yet: its partition, and its record."""
        command = a_vote(f"{contest}-p0", contest=contest, voter="slow", vote_id="slow")
        partition = self.topic.partition_of(command.voter)

        async def granted() -> Granted | None:
            rules = await self.read(contest)
            selection = judge(rules, command)
            assert isinstance(selection, Selection)
            request = Request(rules, command.voter, command.vote_id, command.content, "c-free", selection)
            incarnation = (await self.votes.state(partition)).incarnation
            await self.votes.put_in_force(partition, rules, incarnation)
            [answer] = await self.votes.reserve(partition, [request])
            return answer if isinstance(answer, Granted) else None

        grant = await eventually(granted)
        assert grant is not None
        return partition, cast_of(command, grant, "receipt")

    async def cast(self, contest: str, name: str = "p0") -> Outcome:
        self.ids += 1
        command = a_vote(f"{contest}-{name}", contest=contest, voter=f"voter {self.ids}", vote_id=f"v{self.ids}")
        [outcome] = await self.voting.cast(ACCOUNT, [command])
        return outcome

    async def set_clocks(self, moment: int) -> None:
        """Every partition's clock, so that the next moment is `moment` (us), which is ahead."""
        for partition in range(PARTITIONS):
            gate = f"{key_base(self.settings.namespace, 'votes', partition, PARTITIONS)}:gate"
            await self.catalogue.valkey.call("HSET", gate, "clock", moment - 1)

    async def read(self, contest: str) -> Contest:
        found = contest_of(ACCOUNT, await self.catalogue.views.contest_config(ACCOUNT, contest))
        assert found is not None
        return found

    async def states(self, contest: str) -> list[ClosingState]:
        return [await self.votes.closing(partition, contest) for partition in range(PARTITIONS)]

    async def is_closed(self, contest: str, seq: int = 1) -> bool:
        return all(state.closed == seq for state in await self.states(contest))

    async def closes(self, contest: str, seq: int = 1) -> None:
        """Returns when every partition has passed the mark."""
        await eventually(lambda: self.is_closed(contest, seq))

    async def settles(self, contest: str) -> None:
        """Returns when the closing manager has nothing left to do."""
        partition = self.catalogue.topic.partition_of(ACCOUNT)

        async def is_settled() -> bool:
            return (ACCOUNT, contest) not in await self.catalogue.views.due(partition, 1000)

        await eventually(is_settled)

    def source_partition(self, contest: str, source: str) -> int:
        return self.topic.partition_of(source_log_key(contest, source))

    async def counted(self, contest: str) -> tuple[int, int]:
        """Votes counted, and vote ids that came too late."""
        parts = [await self.votes.counts(partition, contest) for partition in range(PARTITIONS)]
        total = sum(part.figures["", ""].count for part in parts if part and ("", "") in part.figures)
        return total, sum(part.ids.get(VoteStatus.LATE, 0) for part in parts if part)

    async def append(self, partition: int, *events: Event) -> None:
        for event in events:
            await self.catalogue.log.append(self.topic.name, partition, vote_codec.encode(event))

    async def marks(self, contest: str) -> list[tuple[int, Event]]:
        """The marks in the log, with their partitions and in their order there."""
        ends = await self.reader.end_offsets(self.topic.name, range(PARTITIONS))
        ranges = {partition: Extent(0, end) for partition, end in ends.items()}
        found = []
        async for partition, records in self.reader.records(self.topic.name, ranges):
            for record in records:
                event = vote_codec.decode(record.value)
                if isinstance(event, ContestClosed | ContestReopened) and event.contest == contest:
                    found.append((partition, event))
        return sorted(found, key=itemgetter(0))

    @property
    def reopener(self) -> Reopener:
        return Reopener(self.catalogue.record_service, self.votes, VotesLog(self.settings.namespace, PARTITIONS))


@asynccontextmanager
async def open_environment(
    kafka: str, valkey_address: str, namespace: str, storage: Path
) -> AsyncIterator[ProjectorEnvironment]:
    settings = Settings(
        kafka_bootstrap_servers=kafka,
        valkey_url=valkey_address,
        namespace=namespace,
        partitions=PARTITIONS,
        storage_url=storage.as_uri(),
        produce_deadline_ms=500,
        source_grace_s=0,
    )
    patient = settings.model_copy(update={"produce_deadline_ms": 60_000})  # no projector may fold what is in doubt
    await new_topics(settings, topics_of(namespace, PARTITIONS))
    async with (
        open_catalogue(kafka, valkey_address, namespace) as catalogue,
        open_deployment(patient, guard=Unguarded) as servers,
    ):
        await servers.start_writer()
        voting, topic = await create_voting_service(servers), votes_topic(namespace, PARTITIONS)
        views = VoteViews(servers.valkey, servers.namespace, servers.votes)
        yield ProjectorEnvironment(settings, topic, catalogue, views, voting, servers.reader)
