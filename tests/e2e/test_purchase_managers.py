"""Purchases with killed, frozen or concurrent managers: votes count once or not at all."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from libs.contracts.log_records import Appended
from libs.contracts.purchase_events import (
    Purchase,
    PurchaseCast,
    PurchaseEvent,
    PurchaseStatus,
    purchases_codec,
)
from libs.contracts.topics import Topic
from libs.deployment.deployment import open_deployment
from libs.deployment.settings import DeploymentSettings
from libs.kafka.writer import LogWriter
from libs.local_stack.supervisor import Supervisor
from libs.purchases.encryption import AccountCiphers
from libs.storage.secrets import account_secret
from libs.telemetry.redaction import SecretUrl
from libs.views.purchases.purchase_views import PurchaseViews
from libs.voting.service import create_voting_service
from services.cli.deployment_discovery import find_addresses
from services.projector.purchase_manager import PurchaseManager
from services.projector.purchase_steps import Steps
from tests.support.deployments import reconcile_logs
from tests.support.eventually import eventually
from tests.support.purchases_over_http import becomes, paid, purchase, refund, send, wait_for_paid_votes
from tests.support.voting import Api, new_id


@dataclass
class Second:
    """A second projector's access to the purchases, beside the stack's own."""

    account: str
    topic: Topic
    views: PurchaseViews
    log: LogWriter
    steps: Steps

    async def find(self, record: dict[str, Any]) -> Purchase:
        found = await self.views.get(self.account, record["key"])
        assert isinstance(found, Purchase)
        return found

    async def as_bought(self, record: dict[str, Any]) -> Purchase:
        """As a manager holds it that has slept since the purchase was recorded."""
        return replace(await self.find(record), status=PurchaseStatus.RECORDED, refusal=None, taken_back=False)

    async def is_taken_back(self, record: dict[str, Any]) -> bool:
        return (await self.find(record)).taken_back

    async def append(self, event: PurchaseEvent) -> Appended:
        value = purchases_codec.encode(event)
        return await self.log.append(self.topic.name, self.topic.partition_of(event.key), value)

    async def wake(self, slept: Purchase) -> None:
        """It casts what it holds, records that in the log, and its event is folded."""
        landed = await self.append(await self.steps.take(slept))

        async def is_folded() -> bool:
            position = await self.views.position(landed.partition)
            return position is not None and position.offset > landed.offset

        await eventually(is_folded)


@pytest.fixture
async def second(stack: Supervisor) -> AsyncIterator[Second]:
    found = find_addresses(stack.data_dir)
    settings = DeploymentSettings(
        kafka_bootstrap_servers=found.kafka,
        valkey_url=SecretUrl(found.valkey),
        namespace=found.namespace,
        partitions=found.partitions,
        storage_url=found.storage_url,
    )

    async def folded(account: str) -> bool:
        return True

    async with open_deployment(settings) as servers:
        log = await servers.start_writer()
        steps = Steps(
            await create_voting_service(servers), AccountCiphers(partial(account_secret, servers.store)), folded
        )
        yield Second(found.description["account"], servers.purchases, servers.purchase_views, log, steps)


async def test_a_manager_that_dies_before_it_says_so_has_cast_nothing_twice(api: Api, second: Second) -> None:
    contest = await api.contest()
    record = await send(api.client, purchase(contest))
    bought = await second.as_bought(record)
    said = await asyncio.gather(*(second.steps.take(bought) for _ in range(3)))
    said.append(await second.steps.take(bought))
    assert len({event.accepted_at for event in said if isinstance(event, PurchaseCast)}) == 1
    await becomes(api.client, record, "cast")
    await wait_for_paid_votes(contest, 50)


async def test_two_managers_at_the_same_purchases_cast_them_once(
    api: Api, stack: Supervisor, second: Second
) -> None:
    contest = await api.contest(paid={"max_contest": 100, "max_participant": -1})
    manager = PurchaseManager(
        second.topic, second.views, second.log, second.steps.take, lambda: range(second.topic.partitions)
    )
    task = asyncio.create_task(manager.run())
    users = [new_id() for _ in range(8)]
    bodies = [purchase(contest, 20, user=users[number % 8]) for number in range(48)]
    records = await asyncio.gather(*(send(api.client, body) for body in bodies))

    async def decided() -> list[dict[str, Any]]:
        found = [(await api.client.get(f"/api/purchases/{record['key']}")).json() for record in records]
        assert all(record["status"] != "recorded" for record in found)
        return found

    found = await eventually(decided)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    # each of 8 users bought 6 times 20 votes, of which 100 are allowed
    assert [record["status"] for record in found].count("cast") == 40
    await wait_for_paid_votes(contest, 800)
    reconciled = await reconcile_logs(find_addresses(stack.data_dir))
    mine = [one for one in reconciled.uncast + reconciled.not_taken_back if one.contest == contest.key]
    assert (mine, [one for one in reconciled.unpaid if one.contest == contest.key]) == ([], [])


async def test_a_manager_that_slept_casts_nothing_of_a_refunded_purchase(api: Api, second: Second) -> None:
    contest = await api.contest()
    record = await send(api.client, purchase(contest))
    slept = await second.as_bought(record)
    await refund(api.client, record)
    await eventually(lambda: second.is_taken_back(record))
    await second.wake(slept)
    assert (await becomes(api.client, record, "refunded"))["status"] == "refunded"
    assert await paid(contest) == 0


async def test_a_manager_that_slept_casts_nothing_of_a_refused_purchase(api: Api, second: Second) -> None:
    contest = await api.contest(paid={"max_contest": 10, "max_participant": -1})
    record = await becomes(api.client, await send(api.client, purchase(contest)), "refused")
    await eventually(lambda: second.is_taken_back(record))
    assert (await contest.change(paid={"max_contest": 1000})).status_code == 200
    await second.wake(await second.as_bought(record))
    assert await becomes(api.client, record, "refused") == record
    assert await paid(contest) == 0
