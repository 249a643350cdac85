"""Sends purchases over HTTP and follows them to their votes."""

from typing import Any

import httpx

from tests.support.clients.http_clients import ok
from tests.support.clients.voting import Contest, new_id
from tests.support.eventually import eventually

PURCHASES = "/operations/purchases"


def purchase(contest: Contest, count: int = 50, user: str = "buyer", **changes: Any) -> dict[str, Any]:
    """Return the body of a purchase of votes for the first participant."""
    vote = {"contest_key": contest.key, "participant_key": contest.participants[0], "count": count}
    return {
        "user_id": user,
        "purchase_token": f"GPA.{new_id()}",
        "purchase_platform": "google_play",
        "package_key": "votes-50",
        "shop_key": "shop",
        "price": 499,
        "type": "vote",
        "vote": vote,
    } | changes


async def send(client: httpx.AsyncClient, body: dict[str, Any]) -> dict[str, Any]:
    return ok(await client.post(PURCHASES, json=body), 202)


async def refund(client: httpx.AsyncClient, record: dict[str, Any]) -> dict[str, Any]:
    return ok(await client.post(f"{PURCHASES}/{record['key']}/refund"), 202)


async def becomes(client: httpx.AsyncClient, record: dict[str, Any], status: str) -> dict[str, Any]:
    """Return the record when it has reached `status`."""

    async def look() -> dict[str, Any]:
        answer = await client.get(f"/api/purchases/{record['key']}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        assert found["status"] == status, found
        return found

    return await eventually(look)


async def bought(contest: Contest, count: int = 50, status: str = "cast", **changes: Any) -> dict[str, Any]:
    """Send a purchase of votes, and return its record when it has reached `status`."""
    return await becomes(contest.client, await send(contest.client, purchase(contest, count, **changes)), status)


async def paid(contest: Contest) -> int:
    """Return the number of counted paid votes."""
    sources = (await contest.counts())["total_vote_sources"]
    return sum(source["count"] for source in sources if source["source"] == "c-paid")


async def wait_for_paid_votes(contest: Contest, votes: int) -> None:
    """Wait until `votes` paid votes are counted."""

    async def look() -> bool:
        assert await paid(contest) == votes
        return True

    await eventually(look)
