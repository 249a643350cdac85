"""`tally secrets`: rotation under a running service keeps every signature valid."""

from typing import Any

import pytest

from libs.local_stack.supervisor import Supervisor
from libs.storage.object_store import open_store
from libs.storage.secret_rings import read_ring
from tests.e2e.test_audit import audit
from tests.support.clients.commands import tally, tally_json
from tests.support.clients.http_clients import http_client
from tests.support.clients.voting import Api

PURPOSES = ("sessions", "receipts", "uploads", "positions", "links")
RINGS = {"uploads": "upload addresses"}
"""Names of rings in the object store, where they are not the purpose's."""


async def listed(stack: Supervisor) -> list[dict[str, Any]]:
    return (await tally_json(stack, "secrets", "list"))["secrets"]


@pytest.mark.parametrize("purpose", PURPOSES)
@pytest.mark.secured
async def test_a_rotation_ends_nothing_and_prints_no_secret(api: Api, stack: Supervisor, purpose: str) -> None:
    contest = await api.contest()
    voted = await contest.vote(0, vote_id="v", voter_id="ann")
    receipt = voted.json()["receipt"]
    link = (await api.client.post(f"{contest.path}/links", json={})).json()["url"].partition("#link=")[2]
    async with http_client(base_url=stack.stack["base_url"]) as browser:
        logged_in = await browser.post("/dashboard/session", json={"api_key": stack.stack["api_key"]})
        assert logged_in.status_code == 200
        before = await listed(stack)
        assert (await tally(stack, "secrets", "rotate", purpose)).exit_code == 0
        assert await listed(stack) == before
        done = await tally(stack, "secrets", "rotate", purpose, "--execute")
        assert done.exit_code == 0, done.output
        states = [row["state"] for row in await listed(stack) if row["purpose"] == purpose]
        assert states == ["signs", "waits"]
        assert (await browser.get("/dashboard/session")).status_code == 200
        async with browser.stream("GET", f"{contest.path}/show/stream", headers={"tally-link": link}) as opened:
            assert opened.status_code == 200
    again = await contest.vote(0, vote_id="v", voter_id="ann")
    assert (again.status_code, again.json()["receipt"]) == (200, receipt)
    assert (await contest.counts(voted.headers["tally-position"], again.headers["tally-position"]))["count"] == 1
    assert (await contest.status("v", "ann"))["receipt"] == receipt
    assert (await tally(stack, "secrets", "rotate", purpose, "--execute")).exit_code == 1
    refused = await tally(stack, "secrets", "retire", purpose, "--execute")
    assert refused.exit_code == (2 if purpose == "receipts" else 1)
    ring = await read_ring(open_store(stack.stack["storage_url"]), RINGS.get(purpose, purpose))
    shown = done.output + refused.output + (await tally(stack, "secrets", "list")).output
    assert not any(secret.value.hex() in shown for secret in ring)
    assert ("secret rotated", {"purpose": purpose}) in [
        (row["action"], row["subject"]) for row in await audit(stack)
    ]
