"""Each process is killed during purchases and refunds: votes count once, refunded ones not at all."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from libs.local_stack.settings import StackSettings
from libs.local_stack.supervisor import Supervisor
from services.cli import bootstrap
from services.cli.deployment_discovery import find_addresses
from tests.support.deployments import reconcile_logs
from tests.support.eventually import eventually
from tests.support.http_clients import http_client
from tests.support.purchases_over_http import PURCHASES, becomes, purchase, wait_for_paid_votes
from tests.support.voting import Api, Contest, new_id

pytestmark = pytest.mark.slow

BUYERS = 8


@pytest.fixture(scope="module")
async def own_stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Supervisor]:
    """Servers of its own, which the other tests do not miss while they are down."""
    settings = StackSettings(
        data_dir=Path(tmp_path_factory.mktemp("faults")), kafka_bootstrap_servers=None, valkey_url=None
    )
    async with Supervisor(settings, bootstrap, port=0, any_port=True) as supervisor:
        yield supervisor


async def insist(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Send until it is answered for good, as a payment platform does."""
    while True:
        try:
            answer = await client.post(path, json=body)
        except httpx.TransportError:
            await asyncio.sleep(0.1)
            continue
        if answer.status_code == 202:
            found: dict[str, Any] = answer.json()
            return found
        assert answer.status_code == 503, answer.text
        await asyncio.sleep(0.1)


async def buy(client: httpx.AsyncClient, contest: Contest, stop: asyncio.Event, bought: dict[str, bool]) -> None:
    """One purchase after the other, some sent twice and some refunded; notes which ones by key."""
    while not stop.is_set():
        body = purchase(contest, 10, user=new_id())
        copies = random.choice((1, 1, 2))
        [record, *_] = await asyncio.gather(*(insist(client, PURCHASES, body) for _ in range(copies)))
        refunded = random.random() < 0.3
        if refunded:
            await asyncio.sleep(random.random())
            await insist(client, f"{PURCHASES}/refund", {"purchase_token": body["purchase_token"]})
        bought[record["key"]] = refunded


async def bought_more(bought: dict[str, bool]) -> None:
    before = len(bought)
    await eventually(lambda: len(bought) > before + 20)


@pytest.mark.parametrize("name", ["projector", "gateway", "valkey", "kafka"])
async def test_purchases_outlive(own_stack: Supervisor, name: str) -> None:
    description = own_stack.stack
    headers = {"Authorization": f"Bearer {description['api_key']}"}
    async with http_client(base_url=description["base_url"], headers=headers, timeout=20) as client:
        contest = await Api(client).contest()
        stop, bought = asyncio.Event(), dict[str, bool]()
        async with asyncio.TaskGroup() as buyers:
            for _ in range(BUYERS):
                buyers.create_task(buy(client, contest, stop, bought))
            for _ in range(2):
                await bought_more(bought)
                await own_stack.kill(name)
            await bought_more(bought)
            stop.set()
        for key, refunded in bought.items():
            await becomes(client, {"key": key}, "refunded" if refunded else "cast")
        await wait_for_paid_votes(contest, 10 * list(bought.values()).count(False))

        async def fits() -> bool:
            found = await reconcile_logs(find_addresses(own_stack.data_dir))
            assert found.fits, found
            return True

        await eventually(fits, every_s=1)
