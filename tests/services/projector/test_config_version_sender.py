"""A votes partition that does not respond delays no fold of the catalogue, only answers to changes of contests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest

from libs.contracts.catalogue_events import RecordChanged, RecordCreated, catalogue_codec
from libs.contracts.log_records import LogRecord, Position
from libs.contracts.topics import catalogue_topic
from libs.contracts.votes_log import VotesLog
from libs.projection.catalogue_projection import CatalogueProjection
from libs.tally.contest import Contest
from libs.tally.errors import ViewsUnavailable
from libs.tally.events import LogCreated
from libs.tally.reservations import Stale
from libs.views.catalogue_views import CatalogueViews
from libs.views.client import ValkeyClient
from libs.views.function_loading import load_functions, open_valkey
from libs.views.generations import Generations
from libs.views.vote_views import VoteViews
from services.projector.config_version_sender import ConfigVersionSender, RaiseManager
from tests.libs.views.simulation.lua_ledger import request_of
from tests.libs.views.simulation.lua_partition import Partition
from tests.support.builders import a_contest, a_vote
from tests.support.eventually import eventually
from tests.support.freshness import make_fresh

ACCOUNT, CONTEST, PARTITIONS = "acme", "contest", 3


class LosableViews(VoteViews):
    """Votes views of which some partitions can be lost, or hang."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.lost = set[int]()
        self.hanging = set[int]()
        self.asked = list[int]()

    def call_group(self, partition: int) -> int:
        """Group lost partitions apart, as if on a server of their own."""
        return partition if partition in self.hanging | self.lost else -1

    async def raise_together(
        self, partitions: Sequence[int], versions: Mapping[str, int]
    ) -> list[ViewsUnavailable | None]:
        self.asked.extend(partitions)
        if self.hanging & {*partitions}:
            await asyncio.Event().wait()
        if self.lost & {*partitions}:
            raise ViewsUnavailable("lost")
        return await super().raise_together(partitions, versions)


class Topics:
    """The only topic of the votes."""

    def __init__(self, namespace: str) -> None:
        self.log = VotesLog(namespace, PARTITIONS)

    async def refresh(self, max_age_s: float) -> None:
        """Find no others."""


class Fold:
    """The catalogue's fold of one account, over votes views with a contest in force in partition 0."""

    def __init__(self, valkey: ValkeyClient, namespace: str) -> None:
        self.topic = catalogue_topic(namespace)
        self.partition = self.topic.partition_of(ACCOUNT)
        self.views = CatalogueViews(valkey, namespace)
        self.votes = LosableViews(valkey, namespace, PARTITIONS)
        self.ledger = Partition(self.votes)
        self.generations = Generations(valkey, namespace, "catalogue", self.topic)
        self.raiser = ConfigVersionSender(self.votes, Topics(namespace))
        self.manager = RaiseManager(self.raiser, self.views, lambda: range(self.topic.partitions))
        self.projection = CatalogueProjection(self.topic, self.views, self.raiser)
        self.records = [LogRecord(0, 1, catalogue_codec.encode(LogCreated("log")))]

    async def begin(self) -> None:
        await self.fold(0)
        await make_fresh(self.views.fresh, self.partition)

    async def fold(self, start: int) -> None:
        await self.projection.fold(self.partition, Position("log", start), self.records[start:])

    async def write(self, resource: str, key: str = CONTEST, *, change: bool = False) -> str:
        """Fold a record's creation or change; return its command's id."""
        offset = len(self.records)
        contest = key if resource == "contests" else None
        written: dict[str, Any] = {"account": ACCOUNT, "command_id": f"command-{offset}", "at": 1}
        written |= {"resource": resource, "key": key, "contest": contest, "record": "{}"}
        event = RecordChanged(**written, expected_version=offset - 1) if change else RecordCreated(**written)
        self.records.append(LogRecord(offset, 1, catalogue_codec.encode(event)))
        await self.fold(offset)
        return event.command_id

    async def is_decided(self, command: str) -> bool:
        [outcome] = await self.views.outcomes(self.partition, [command])
        return outcome is not None

    async def are_decided(self, commands: Sequence[str]) -> bool:
        return all([await self.is_decided(command) for command in commands])

    async def admits(self, contest: Contest) -> bool:
        """Return whether partition 0 decides votes by this configuration."""
        [answer] = await self.votes.reserve(0, [request_of(contest, a_vote(), declined=True)])
        return not isinstance(answer, Stale)


@pytest.fixture
async def valkey(valkey_address: str) -> AsyncIterator[ValkeyClient]:
    client = open_valkey(valkey_address)
    await load_functions(client)
    yield client
    await client.close()


@pytest.fixture
async def fold(valkey: ValkeyClient, namespace: str) -> Fold:
    fold = Fold(valkey, namespace)
    await fold.begin()
    return fold


@pytest.fixture
async def managed(fold: Fold) -> AsyncIterator[None]:
    running = asyncio.create_task(fold.manager.run())
    yield
    running.cancel()


async def test_a_change_is_decided_only_when_every_partition_has_it(fold: Fold) -> None:
    """Until then votes may be decided by the older configuration where it was not raised."""
    await fold.write("contests")
    former = a_contest(version=1)
    await fold.ledger.fence()
    await fold.votes.put_in_force(0, former, (await fold.votes.state(0)).incarnation)
    fold.votes.lost = {0}
    changed = await fold.write("contests", change=True)
    assert await fold.views.get(ACCOUNT, "contests", CONTEST)
    assert await fold.admits(former)
    assert not await fold.is_decided(changed)

    fold.votes.lost = set()
    running = asyncio.create_task(fold.manager.run())
    try:
        await eventually(lambda: fold.is_decided(changed))
        assert not await fold.admits(former)
        assert await fold.views.with_raises(range(fold.topic.partitions)) == []
    finally:
        running.cancel()


async def test_records_without_a_configuration_and_new_contests_are_decided_at_once(fold: Fold) -> None:
    fold.votes.lost = {1}
    assert await fold.is_decided(await fold.write("contests"))
    assert await fold.is_decided(await fold.write("articles", "article"))
    assert not await fold.is_decided(await fold.write("contests", "another", change=True))
    assert await fold.is_decided(await fold.write("articles", "further"))


async def test_a_partition_that_hangs_is_waited_for_once(fold: Fold, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.projector.config_version_sender.WAIT_S", 0.05)
    await fold.write("contests")
    fold.votes.hanging = {2}
    await fold.write("contests", change=True)
    fold.votes.asked.clear()
    await fold.write("contests", change=True)
    assert 2 not in fold.votes.asked


async def test_what_is_due_outlives_the_projector_and_a_replay(fold: Fold, managed: None) -> None:
    """Another one raises it, though another generation is read by then."""
    await fold.write("contests")
    fold.votes.lost = {0, 2}
    commands = [await fold.write("contests", change=True) for _ in range(3)]
    assert await fold.generations.open(fold.partition, 2)
    replay = CatalogueViews(fold.views._valkey, fold.topic.name.removesuffix(".catalogue"), 2)
    await CatalogueProjection(fold.topic, replay, fold.raiser).fold(
        fold.partition, Position("log", 0), fold.records
    )
    assert (await fold.generations.swap(fold.partition, 2)).done
    assert not any([await fold.is_decided(command) for command in commands])
    fold.votes.lost = {2}
    await eventually(lambda: 0 not in fold.raiser._away)
    assert not any([await fold.is_decided(command) for command in commands])
    fold.votes.lost = set()
    await eventually(lambda: fold.are_decided(commands))
