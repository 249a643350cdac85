"""The catalogue's views are rebuilt from the log with the same ETags after loss or corruption."""

import uuid
from collections.abc import AsyncIterator

import httpx
import pytest

from libs.local_stack.supervisor import Supervisor
from tests.e2e.current_api.records import Records
from tests.services.cli.replay.context import ReplayContext
from tests.support.eventually import eventually
from tests.support.stack_keys import client_with


@pytest.fixture
async def context(stack: Supervisor) -> AsyncIterator[ReplayContext]:
    async with ReplayContext.open(stack) as context:
        yield context


@pytest.fixture
async def own(records: Records, stack: Supervisor) -> AsyncIterator[Records]:
    """An account with a record of many resources, changed and referred to."""
    async with await client_with(stack, uuid.uuid4().hex, "content:read", "content:write") as client:
        yield Records(client, records.keys)


async def filled(own: Records) -> list[str]:
    """The addresses of what an account has after some writes: records, and lists."""
    article = await own.made("articles", {"tags": ["a"]})
    shop = await own.made("shops", {"article": article["key"], "packages": [{"title": "Ten"}]})
    await own.patch("shops", shop["key"], {"title": "Votes"})
    schedule = await own.made("conventions", {"days": [{"id": "one"}]})
    slots = f"/conventions/{schedule['key']}/timeslots"
    slot = (await own.client.post(slots, json={"day_id": "one"})).json()
    survey = await own.made("surveys", {})
    await own.client.post(f"/surveys/{survey['key']}", json={"title": "Replaced"})
    gone = await own.made("feeds", {})
    await own.client.delete(f"/feeds/{gone['key']}")
    one = {"articles": article, "shops": shop, "conventions": schedule, "timeslots": slot, "surveys": survey}
    return [
        slots,
        "/feeds",
        *(f"/{resource}" for resource in one if resource != "timeslots"),
        *(f"/{resource}/{record['key']}" for resource, record in one.items()),
        f"/feeds/{gone['key']}",
    ]


async def read(client: httpx.AsyncClient, addresses: list[str]) -> list[tuple[int, str | None, bytes]]:
    """Status, ETag and content of each; of what is not there only that."""
    answers = [await client.get(address) for address in addresses]
    return [
        (answer.status_code, answer.headers.get("etag"), answer.content if answer.is_success else b"")
        for answer in answers
    ]


async def destroy(context: ReplayContext, pattern: str) -> int:
    """Delete the keys of the catalogue's views that match, all in one step: the projector mends what is missing.

    By SCAN, since an operator has no right to KEYS.
    """
    cursor, keys = b"0", []
    while True:
        matching = "MATCH", f"{context.deployment.namespace}:{{c{pattern}", "COUNT", 10_000
        cursor, found = await context.valkey.call("SCAN", cursor, *matching)
        keys += found
        if cursor == b"0":
            return int(await context.valkey.call("DEL", *keys)) if keys else 0


async def test_views_that_were_destroyed_come_back_by_themselves(own: Records, context: ReplayContext) -> None:
    addresses = await filled(own)
    before = await read(own.client, addresses)
    assert await destroy(context, "*") > 0

    async def healed() -> bool:
        return await read(own.client, addresses) == before

    assert not await healed()
    await eventually(healed)
    article = next(address for address in addresses if address.startswith("/articles/"))
    assert (await own.client.delete(article)).status_code == 409, "who refers to it came back, too"


async def test_views_that_were_spoilt_come_back_by_a_replay(own: Records, context: ReplayContext) -> None:
    addresses = await filled(own)
    before = await read(own.client, addresses)
    assert await destroy(context, "*:records:*") > 0
    assert (await own.client.get(addresses[-2])).status_code == 404
    arguments = ("--projection", "catalogue", "--execute")
    [rebuilt] = (await context.run_json("replay", "run", *arguments, "--accept-differences"))["rebuilt"]
    assert rebuilt["swapped"]
    assert await read(own.client, addresses) == before
    await context.run_json("replay", "drop", *arguments)
