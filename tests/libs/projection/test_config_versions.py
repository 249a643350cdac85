"""A change of a contest can be read once no votes partition decides by an older configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from libs.contracts.catalogue_events import RecordChanged, RecordCreated, catalogue_codec
from libs.contracts.log_records import LogRecord, Position
from libs.contracts.topics import catalogue_topic
from libs.projection.record_projections import CatalogueProjection, ConfigVersions
from libs.tally.contest import Contest
from libs.tally.errors import ViewsUnavailable
from libs.tally.events import LogCreated
from libs.tally.reservations import Stale
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.valkey.client import ValkeyClient
from tests.libs.views.lua_ledger import request_of
from tests.libs.views.partition import Partition
from tests.support.builders.contests import a_contest, a_vote
from tests.support.clients.vote_views import VoteViews
from tests.support.servers.freshness import make_fresh

ACCOUNT, CONTEST, PARTITIONS = "acme", "contest", 3


class LosableViews(VoteViews):
    """Votes views of which some partitions can be lost, as if each was on a server of its own."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.lost = set[int]()

    def call_group(self, partition: int) -> int:
        return partition

    async def raise_together(
        self, partitions: Sequence[int], versions: Mapping[str, int]
    ) -> list[ViewsUnavailable | None]:
        if self.lost & {*partitions}:
            return [ViewsUnavailable("lost") for _ in partitions]
        return await super().raise_together(partitions, versions)


async def partitions() -> range:
    return range(PARTITIONS)


class Fold:
    """The catalogue's fold of one account, over votes views with a contest in force in partition 0."""

    def __init__(self, valkey: ValkeyClient, namespace: str) -> None:
        self.topic = catalogue_topic(namespace)
        self.partition = self.topic.partition_of(ACCOUNT)
        self.views = CatalogueViews(valkey, namespace)
        self.votes = LosableViews(valkey, namespace, PARTITIONS)
        self.ledger = Partition(self.votes)
        self.projection = CatalogueProjection(self.topic, self.views, ConfigVersions(self.votes, partitions))
        self.records = [LogRecord(0, 1, catalogue_codec.encode(LogCreated("log")))]

    async def fold(self) -> None:
        start = await self.views.position(self.partition) or Position("log", 0)
        await self.projection.fold(self.partition, start, self.records[start.offset :])

    async def write(self, resource: str, key: str = CONTEST, *, change: bool = False) -> str:
        """Fold a record's creation or change; return its command's id. A fold that failed is repeated."""
        offset = len(self.records)
        contest = key if resource == "contests" else None
        written: dict[str, Any] = {"account": ACCOUNT, "command_id": f"command-{offset}", "at": 1}
        written |= {"resource": resource, "key": key, "contest": contest, "record": "{}"}
        event = RecordChanged(**written, expected_version=offset - 1) if change else RecordCreated(**written)
        self.records.append(LogRecord(offset, 1, catalogue_codec.encode(event)))
        await self.fold()
        return event.command_id

    async def is_decided(self, command: str) -> bool:
        [outcome] = await self.views.outcomes(self.partition, [command])
        return outcome is not None

    async def admits(self, contest: Contest) -> bool:
        """Return whether partition 0 decides votes by this configuration."""
        [answer] = await self.votes.reserve(0, [request_of(contest, a_vote(), declined=True)])
        return not isinstance(answer, Stale)


@pytest.fixture
async def fold(valkey: ValkeyClient, namespace: str) -> Fold:
    fold = Fold(valkey, namespace)
    await fold.fold()
    await make_fresh(fold.views.fresh, fold.partition)
    return fold


async def test_a_change_that_waits_stops_no_votes_in_other_partitions(fold: Fold) -> None:
    await fold.write("contests")
    former = a_contest(version=1)
    await fold.votes.put_in_force(0, former, await fold.ledger.fence())
    fold.votes.lost = {2}
    with pytest.raises(ViewsUnavailable):
        await fold.write("contests", change=True)
    assert await fold.admits(former)


async def test_records_without_a_configuration_need_no_votes_partition(fold: Fold) -> None:
    fold.votes.lost = {0, 1, 2}
    assert await fold.is_decided(await fold.write("articles", "article"))
