"""`tally quarantine`: lists, drops, and retries records that could not be processed."""

import json
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from typer.testing import Result

from libs.contracts.codec import Undecodable, vote_codec
from libs.contracts.log_records import LogRecord, Position
from libs.contracts.purchase_events import purchases_codec
from libs.kafka.reader import Extent, LogReader
from libs.kafka.security import connection
from libs.monitoring.health_problems import problems_of
from libs.monitoring.quarantine import Drop, keep
from libs.projection.projection_interface import Projection
from libs.projection.record_projections import CatalogueProjection, PurchasesProjection, no_votes
from libs.projection.votes_projection import VotesProjection
from libs.storage.object_store import open_store
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.generations.generations import ProjectionName, projections_of
from libs.views.purchases.purchase_views import PurchaseViews
from libs.views.votes.address_counters import AddressCounters
from tests.support.builders.contests import a_cast
from tests.support.builders.folded_log import FoldedLog, folded_log
from tests.support.builders.purchases_log import a_purchase
from tests.support.clients.commands import run, use_deployment
from tests.support.clients.vote_views import FoldInput
from tests.support.servers.deployments import read_status

HEADERS = [("origin", b"an importer"), ("raw", b"\xff\x00")]
BYTES = b"\xff\xfe no text" + bytes(range(20))
FIRST = 1
"""The offset after LogCreated."""


class Ward:
    """Partition 0 of every fold, and the commands."""

    def __init__(self, log: FoldedLog, producer: AIOKafkaProducer) -> None:
        self.log = log
        self.stack, self.valkey = log.stack, log.valkey
        self.folds = projections_of(self.valkey, self.stack.namespace, self.stack.partitions)
        self._producer = producer

    async def append(self, fold: ProjectionName, value: bytes) -> None:
        topic = self.folds[fold].topic.name
        await self._producer.send_and_wait(topic, value, b"key", partition=0, headers=HEADERS)

    async def fold(self, fold: ProjectionName) -> None:
        """As the projector does."""
        projection = self._projection(fold)
        start, records = await self._unfolded(fold)
        await projection.fold(0, start, records)

    async def set_aside(self, fold: ProjectionName, reason: str = "of a version to come") -> None:
        """As older code does, which lacks the event's type; after what is folded already."""
        start, records = await self._unfolded(fold)
        end, not_known = records[-1].offset + 1, Undecodable(reason)
        if fold is ProjectionName.VOTES:
            items = [FoldInput(not_known, record.offset, record.timestamp_ms) for record in records]
            await self.log.views.apply(0, start, items, end)
        else:
            views = PurchaseViews(self.valkey, self.stack.namespace, self.folds[fold].topic.topics[0])
            await views.apply(0, start, [(record, not_known) for record in records], end)

    async def drop_by_hand(self, offset: int) -> None:
        """As it was decided earlier, of this log's votes."""
        live = (await self.folds[ProjectionName.VOTES].read(0)).live.position
        assert live is not None
        topic = self.folds[ProjectionName.VOTES].topic.name
        drop = Drop(topic, 0, offset, live.log_id, "its hash", "its reason", "2026-01-01T00:00:00Z")
        await keep(open_store(self.stack.storage_url), drop)

    async def forget(self, fold: ProjectionName) -> None:
        """Valkey loses what it holds of the fold."""
        keys = await self.valkey.call("KEYS", f"{self.folds[fold].base(0)}:*")
        await self.valkey.call("DEL", *keys)

    async def count(self) -> int:
        """Return the counted votes."""
        counts = await self.log.views.counts(0, "contest")
        assert counts is not None
        return counts.figures["a", ""].count if counts.figures else 0

    async def run(self, *arguments: str, code: int = 0) -> Result:
        result = await run("quarantine", *arguments, "--data-dir", "none")
        assert result.exit_code == code, result.output
        return result

    async def printed(self, *arguments: str, code: int = 0) -> Any:
        return json.loads((await self.run(*arguments, "--json", code=code)).stdout)

    async def listed(self, *arguments: str) -> list[tuple[str, int]]:
        return [(row["topic"], row["offset"]) for row in (await self.printed("list", *arguments))["records"]]

    def _projection(self, fold: ProjectionName) -> Projection:
        views, namespace = self.folds[fold], self.stack.namespace
        if fold is ProjectionName.VOTES:
            return VotesProjection(views.topic, self.log.views, AddressCounters(self.valkey, namespace))
        [topic] = views.topic.topics
        if fold is ProjectionName.PURCHASES:
            return PurchasesProjection(topic, PurchaseViews(self.valkey, namespace, topic))
        env = topic.name.removesuffix(".catalogue")
        return CatalogueProjection(topic, CatalogueViews(self.valkey, env), no_votes)

    async def _unfolded(self, fold: ProjectionName) -> tuple[Position, Sequence[LogRecord]]:
        topic = self.folds[fold].topic.name
        async with LogReader(self.stack.kafka_settings) as reader:
            live = (await self.folds[fold].read(0)).live.position
            start = live or Position((await reader.log_ids(topic, [0]))[0], 0)
            ends = await reader.end_offsets(topic, [0])
            found = [
                record
                async for _, records in reader.records(topic, {0: Extent(start.offset, ends[0])})
                for record in records
            ]
        return start, found


@pytest.fixture(autouse=True)
def nothing_stalls(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a test takes: no projector folds what it does not fold itself."""
    monkeypatch.setattr("libs.monitoring.lag.STALLED_MS", 3_600_000)


@pytest.fixture
async def ward(
    kafka: str, valkey_address: str, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Ward]:
    async with folded_log(kafka, valkey_address, namespace) as log:
        log.stack = replace(log.stack, storage_url=str(tmp_path))
        use_deployment(monkeypatch, log.stack)
        async with AIOKafkaProducer(**connection(log.stack.kafka_settings), acks="all") as producer:
            yield Ward(log, producer)


async def test_a_poisoned_record_of_each_topic_is_listed_and_shown_as_it_lies_in_the_log(ward: Ward) -> None:
    for fold in ProjectionName:
        await ward.append(fold, BYTES if fold is ProjectionName.TEST else f"poison of {fold}".encode())
        await ward.fold(fold)
    listed = (await ward.printed("list"))["records"]
    assert [(row["topic"], row["partition"], row["offset"]) for row in listed] == [
        (fold.value, 0, FIRST) for fold in ProjectionName
    ]
    assert all(row["appended"].startswith("20") and "Invalid JSON" in row["reason"] for row in listed)
    assert [row["size"] for row in listed] == [15, 19, 19, len(BYTES)]
    head, row = (await ward.run("list", "--topic", "test")).stdout.splitlines()
    assert head.split()[:4] == ["topic", "partition", "offset", "appended"]
    assert row.split()[:3] == ["test", "0", "1"]
    text = (await ward.run("show", "votes", "0", "1")).stdout
    assert "reason: record: Invalid JSON" in text
    assert "key: key\nheader origin: an importer\nheader raw: ff 00\nsize: 15 bytes\n\npoison of votes\n" in text
    dump = (await ward.run("show", "test", "0", "1")).stdout.splitlines()
    assert dump[-2:] == [
        "00000000  ff fe 20 6e 6f 20 74 65 78 74 00 01 02 03 04 05  .. no text......",
        "00000010  06 07 08 09 0a 0b 0c 0d 0e 0f 10 11 12 13        ..............",
    ]
    whole = await ward.printed("show", "test", "0", "1")
    assert b64decode(whole["value"]) == BYTES
    assert [(one["name"], b64decode(one["value"])) for one in whole["headers"]] == HEADERS
    assert whole["key"] == b64encode(b"key").decode()


async def test_a_record_cannot_steer_the_terminal_that_shows_it(ward: Ward) -> None:
    await ward.append(ProjectionName.VOTES, b"\x1b[2J")
    await ward.append(ProjectionName.VOTES, b'{"type": "\\u001b[2J"}')
    await ward.fold(ProjectionName.VOTES)
    assert any("\x1b" in row["reason"] for row in (await ward.printed("list"))["records"])
    for words in (("list",), ("retry",), ("show", "votes", "0", "1"), ("show", "votes", "0", "2")):
        assert "\x1b" not in (await ward.run(*words)).stdout


async def test_what_is_dropped_stays_dropped_when_the_view_is_folded_again(ward: Ward) -> None:
    for fold in ProjectionName:
        await ward.append(fold, b"poison")
        await ward.fold(fold)
        where = (fold.value, "0", "1")
        preview = await ward.run("drop", *where)
        assert preview.stdout.endswith("Run again with --execute to drop it.\n")
    assert len(await ward.listed()) == len(ProjectionName)
    assert ("quarantine", "votes 0") in await problems(ward)
    for fold in ProjectionName:
        done = await ward.printed("drop", fold.value, "0", "1", "--reason", "noise", "--execute")
        assert (done["executed"], done["record"]["dropped"]["reason"]) == (True, "noise")
        await ward.forget(fold)
        await ward.fold(fold)
    assert await ward.listed() == []
    assert (await ward.run("list")).stdout == (
        "No record in quarantine is open.\n4 dropped, not shown; --all shows them.\n"
    )
    assert len(await ward.listed("--all")) == len(ProjectionName)
    assert {kind for kind, _ in await problems(ward)} == {"gate"}
    status = await read_status(ward.stack)
    assert [status.totals(fold).dropped for fold in ProjectionName] == [1] * len(ProjectionName)
    again = await ward.run("drop", "votes", "0", "1", "--reason", "another", "--execute")
    assert again.stdout.splitlines()[-1].startswith("Dropped at 2")
    assert (await ward.printed("list", "--all"))["records"][0]["dropped"]["reason"] == "noise"


async def problems(ward: Ward) -> set[tuple[str, str]]:
    return {(one.kind, one.where) for one in problems_of(await read_status(ward.stack))}


async def test_what_todays_code_can_fold_is_folded_by_a_retry(ward: Ward) -> None:
    for fold in (ProjectionName.VOTES, ProjectionName.PURCHASES):
        await ward.fold(fold)
    await ward.append(ProjectionName.VOTES, vote_codec.encode(a_cast("a", 3)))
    await ward.append(ProjectionName.VOTES, b"poison")
    await ward.set_aside(ProjectionName.VOTES)
    await ward.append(ProjectionName.PURCHASES, purchases_codec.encode(a_purchase()))
    await ward.set_aside(ProjectionName.PURCHASES)
    assert "can process votes 0 1" in (await ward.run("drop", "votes", "0", "1", "--execute", code=1)).stderr
    preview = (await ward.run("retry")).stdout
    assert "To be rebuilt: votes 0, purchases 0. Run again with --execute" in preview
    assert [row["processable"] for row in (await ward.printed("retry", "--topic", "votes"))["records"]] == [
        True,
        False,
    ]
    assert await ward.listed() == [("votes", 1), ("votes", 2), ("purchases", 1)]
    done = await ward.printed("retry", "--topic", "votes", "--execute")
    assert [(one["projection"], one["swapped"]) for one in done["rebuilt"]] == [("votes", True)]
    assert await ward.count() == 3
    refused = await ward.printed("retry", "--topic", "purchases", "--execute", code=1)
    assert [one["swapped"] for one in refused["rebuilt"]] == [False]
    await ward.run("retry", "--topic", "purchases", "--execute", "--accept-differences")
    assert await ward.listed() == [("votes", 2)]
    assert (await ward.run("retry")).stdout.splitlines()[-1] == "There is nothing to rebuild."


async def test_a_dropped_record_that_would_be_folded_forbids_a_retry(ward: Ward) -> None:
    await ward.fold(ProjectionName.VOTES)
    await ward.append(ProjectionName.VOTES, vote_codec.encode(a_cast()))
    await ward.append(ProjectionName.VOTES, vote_codec.encode(a_cast(vote_id="another")))
    await ward.set_aside(ProjectionName.VOTES)
    await ward.drop_by_hand(2)
    done = await ward.printed("retry", "--execute", code=1)
    assert ([row["offset"] for row in done["forbidding"]], done["rebuilt"]) == ([2], [])
    assert "which was dropped" in (await ward.run("retry", code=1)).stdout


async def test_a_replay_by_which_other_fences_hold_is_not_read_unasked(ward: Ward) -> None:
    """A vote after a fence that the new generation lacks counts in it, too; the gate is shut until the next."""
    views = ward.log.views
    await ward.fold(ProjectionName.VOTES)

    async def fenced(*, quarantined: bool) -> int:
        fence = await views.shut(0, (await views.state(0)).incarnation)
        assert fence is not None
        await ward.append(ProjectionName.VOTES, vote_codec.encode(fence))
        await (ward.set_aside(ProjectionName.VOTES) if quarantined else ward.fold(ProjectionName.VOTES))
        return fence.incarnation

    await fenced(quarantined=False)
    await fenced(quarantined=True)
    await ward.valkey.call("HSET", f"{views._base(0)}:gate", "asked_run", "gone")
    incarnation = await fenced(quarantined=False)
    await ward.append(ProjectionName.VOTES, vote_codec.encode(a_cast("a", 3, incarnation=incarnation)))
    await ward.fold(ProjectionName.VOTES)

    assert await ward.count() == 3
    refused = (await ward.run("retry", "--topic", "votes", "--execute", code=1)).stdout
    assert "was built with other fences" in refused
    assert "partition 0. Accepted votes might no longer count, so it was not swapped in." in refused
    assert (await ward.count(), (await views.state(0)).open) == (3, True)
    await ward.run("retry", "--topic", "votes", "--execute", "--accept-differences")
    assert (await ward.count(), (await views.state(0)).open) == (3, False)
    undone = await run("replay", "rollback", "--projection", "votes", "--execute", "--data-dir", "none")
    assert undone.exit_code != 0
    assert "--accept-differences swaps anyway" in undone.output
