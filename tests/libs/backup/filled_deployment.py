"""A deployment with something in each of its logs, and the two commands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer
from typer.testing import Result

from libs.backup.manifest import logs_by_kind
from libs.contracts.catalogue_events import CatalogueEvent, KeyIssued, RecordCreated, catalogue_codec
from libs.contracts.codec import vote_codec
from libs.contracts.log_records import LogRecord
from libs.contracts.purchase_events import PurchaseEvent, PurchaseRefunded, purchases_codec
from libs.contracts.topics import Log, VotesLog, catalogue_topic, legacy_test_namespace
from libs.deployment.settings import DeploymentAddresses
from libs.kafka.reader import LogReader
from libs.storage.object_store import Store, open_store
from libs.storage.secrets import account_secret, contest_secret, server_secret
from libs.tally.events import ContestClosed, Event, Fence
from tests.support.builders.contests import NOW, a_cast, a_removal, a_report
from tests.support.builders.purchases_log import a_purchase, purchase_key
from tests.support.clients.commands import environment, printed, run

PARTITIONS = 2
ODD = [b"poison", b'{"two":\n"lines"}', b"\xff\xfe", b"", b'{"type": "unheard", "n": 1.50, "n": 2}', b" null "]
"""Records that are no events, of each sort that a line could spoil."""


@dataclass
class Site:
    """One namespace."""

    stack: DeploymentAddresses
    producer: AIOKafkaProducer

    def beside(self, **changes: Any) -> Site:
        """Another one on the same servers."""
        return replace(self, stack=replace(self.stack, **changes))

    @property
    def store(self) -> Store:
        return open_store(self.stack.storage_url)

    @property
    def logs(self) -> Mapping[str, Log]:
        """By kind."""
        return logs_by_kind(self.stack.namespace, VotesLog(self.stack.namespace, PARTITIONS))

    async def append(
        self, kind: str, values: Sequence[bytes], partition: int = 0, key: bytes | None = None
    ) -> None:
        for value in values:
            await self.producer.send(self.logs[kind].name, value, key, partition=partition)
        await self.producer.flush()

    async def fill(self) -> None:
        """Votes of two contests, what is no event, purchases, records; and secrets."""
        votes: list[Event] = [
            a_cast(contest="final"),
            a_cast("b", 3, contest="final", vote_id="more", source="c-paid"),
            a_removal(contest="final"),
            a_cast(contest="other"),
            Fence(7),
            a_report("r", ("x", 4, 1, 0), contest="final"),
            ContestClosed("final", 1),
        ]
        values = [vote_codec.encode(event) for event in votes]
        await self.append("votes", [*values[:3], *ODD, *values[3:]], key=b"\xff a key")
        await self.append("votes", [vote_codec.encode(a_cast(contest="final", voter="w"))], 1, key="é".encode())
        refunded = PurchaseRefunded(account="a1", key=purchase_key("p"), at=NOW)
        bought: list[PurchaseEvent] = [refunded, a_purchase("p"), a_purchase("q", vote=None)]
        await self.append("purchases", [purchases_codec.encode(event) for event in bought])
        records = [catalogue_codec.encode(event) for event in records_of_two_contests()]
        await self.append("catalogue", records, catalogue_topic(self.stack.namespace).partition_of("a1"))
        for secret in (contest_secret(self.store, "final"), account_secret(self.store, "a1")):
            await secret
        await server_secret(self.store, "receipts")
        await self.store.replace(f"worlds/{self.stack.namespace}/images/a1/i/0f/original", b"a picture")
        await self.store.replace(f"worlds/{legacy_test_namespace(self.stack.namespace)}/files/a1/f/empty", b"")
        await self.store.replace("worlds/another/files/a1/f/0", b"of another namespace")

    async def records(self) -> dict[str, list[LogRecord]]:
        """By topic and partition, all of them."""
        found: dict[str, list[LogRecord]] = {}
        async with LogReader(self.stack.kafka_settings) as reader:
            for kind, topic in self.logs.items():
                extents = await reader.extents(topic.name, range(topic.partitions))
                async with aclosing(reader.records(topic.name, extents)) as batches:
                    async for partition, records in batches:
                        found.setdefault(f"{kind}-{partition:05d}", []).extend(records)
        return found

    async def tally(self, *arguments: str | Path) -> Result:
        """Run a command on the deployment."""
        return await run(*arguments, env=environment(self.stack))

    async def export(self, directory: Path, *arguments: str) -> dict[str, Any]:
        """Return the command's report."""
        found: dict[str, Any] = printed(await self.tally("export", "--to", directory, *arguments, "--json"))
        return found

    async def import_from(self, directory: Path, *arguments: str) -> dict[str, Any]:
        """Return the command's report."""
        found: dict[str, Any] = printed(await self.tally("import", "--from", directory, *arguments, "--json"))
        return found


def records_of_two_contests() -> list[CatalogueEvent]:
    given: dict[str, Any] = {"account": "a1", "at": NOW, "record": "{}"}
    final = ("contests", "final")
    return [
        RecordCreated(command_id="1", resource="contests", key="final", contest="final", **given),
        RecordCreated(command_id="2", resource="contests", key="other", contest="other", **given),
        RecordCreated(command_id="3", resource="participants", key="p", contest="final", parent=final, **given),
        RecordCreated(command_id="4", resource="articles", key="x", refs=(final,), **given),
        RecordCreated(command_id="5", resource="articles", key="y", **given),
        KeyIssued(account="a1", at=NOW, command_id="6", key_id="k", sha256="0" * 64, permissions=()),
    ]


def files_of(directory: Path) -> dict[str, bytes]:
    """The files of records, by name."""
    return {path.name: path.read_bytes() for path in directory.glob("*-*.*")}


@contextmanager
def edited(directory: Path, name: str = "manifest.json") -> Iterator[dict[str, Any]]:
    """Yield the content of an export's file, to be changed in place."""
    content: dict[str, Any] = json.loads((directory / name).read_text())
    yield content
    (directory / name).write_text(json.dumps(content))


def complaint(result: Result) -> str:
    """Return its text on standard error, without the frame."""
    return " ".join(result.stderr.replace("│", " ").split())
