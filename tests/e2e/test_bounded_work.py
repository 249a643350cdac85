"""No request stops the others: the largest and the worst bodies to every route, and the largest records read back.

A gateway runs in this process, in a thread whose loop is measured, beside the projector of the stack. What it does
in one go is compared in CPU time, so that a busy machine does not matter.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any, Final

import httpx
import pytest
from fastapi import FastAPI

from libs.local_stack.supervisor import Supervisor
from services.cli.deployment_discovery import addresses_in
from services.gateway.app import open_app
from tests.support.builders.worst_bodies import JSON, MARKS, Body, bodies_of, largest, most_bytes, unknown_members
from tests.support.clients.http_clients import http_client
from tests.support.clients.voting import Api, Contest
from tests.support.loop_turns import LONGEST_S, Turns, slowness
from tests.support.models.openapi import read_tracked, resolved
from tests.support.run_profile import by_profile
from tests.support.servers.gateway_settings import settings_beside
from tests.support.servers.serving import served_apart

pytestmark = pytest.mark.slow
ATTEMPTS: Final = 3
"""A turn counts as long only if it is each time: a collection of garbage may hit one."""
RECORDS: Final = by_profile(short=1, long=24)
"""Largest records of each kind."""
BODIES: Final = by_profile(short=1, long=100)
"""Most bodies of a route. Each day draws others."""
STORED: Final = {
    f"{name}_key"
    for name in ("contest", "participant", "convention", "timeslot", "article", "app", "shop", "feed")
}
"""Path parameters of resources whose largest records are stored."""
LEFT_OUT: Final[tuple[str, ...]] = by_profile(short=("/legacy",), long=())
"""Base paths of routes that the document leaves out because they are others' under another path."""
UNLIMITED: Final = {f"rate_{each}": 0 for each in ("per_address", "bytes_per_address", "bytes_per_key")}
"""Settings that end the rates, so that each request is worked on."""
STREAM: Final = "text/event-stream"
ANSWER_S: Final = 300
"""Time after which a request counts as unanswered, on any machine."""
METHODS: Final = ("get", "put", "post", "patch", "delete")
NO_BODY: Final = Body("", "", b"")
UNANSWERED: Final = 0
"""Status of a request without an answer."""
LIMITED: Final = 429
LARGE_SHARE: Final = 16
QUERY_MARKS: Final = 400


@dataclass
class Attack:
    """Sends requests, each beside a vote, and keeps what went wrong: the loop's longest turn, or the status."""

    turns: Turns
    contest: Contest
    too_long: dict[str, float] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    votes: list[int] = field(default_factory=list)

    async def send(self, client: httpx.AsyncClient, method: str, path: str, kind: str, **request: Any) -> None:
        """Send a request, again while it takes too long."""
        name, least = f"{method} {path[:60]} {kind}", float("inf")
        for _ in range(ATTEMPTS):
            await self.turns.take()
            status, _ = await asyncio.gather(_status(client, method, path, **request), self._vote())
            if status in (UNANSWERED, LIMITED) or status >= 500:
                self.failed[name] = status
            least = min(least, await self.turns.take())
            if least <= LONGEST_S:
                return
        if least > LONGEST_S * slowness():
            self.too_long[name] = round(least, 3)

    async def _vote(self) -> None:
        answer = await self.contest.vote(0, f"voter {len(self.votes)}")
        self.votes.append(answer.status_code)


async def _status(client: httpx.AsyncClient, method: str, path: str, **request: Any) -> int:
    try:
        async with client.stream(method, path, **request) as answer:
            if STREAM not in answer.headers.get("content-type", ""):
                await answer.aread()
            return answer.status_code
    except httpx.TransportError:
        return UNANSWERED


async def test_no_request_that_the_limits_admit_takes_the_loop_for_long_and_votes_go_on(
    api: Api, stack: Supervisor
) -> None:
    settings = settings_beside(addresses_in(stack.stack))
    document = read_tracked()
    probe, target = await api.contest(), await api.contest()
    async with (
        served_apart(open_app(settings), **UNLIMITED) as (app, url, turns),
        http_client(base_url=url, headers=api.client.headers, timeout=ANSWER_S) as client,
        http_client(base_url=url, headers=api.client.headers, timeout=ANSWER_S) as voter,
        http_client(base_url=url, timeout=ANSWER_S) as nobody,
    ):
        for name in ("service_brand", "service_key"):
            client.headers[name.replace("_", "-")] = stack.stack[name]
        attack = Attack(turns, Contest(voter, probe.key, probe.participants))
        keys = await largest_records(client, document, target)
        assert keys.keys() >= STORED
        await attack_routes(attack, client, document, keys)
        await attack_undocumented(attack, nobody, app, document)
    assert attack.too_long == {}
    assert attack.failed == {}
    assert set(attack.votes) == {201}


async def largest_records(client: httpx.AsyncClient, document: dict[str, Any], contest: Contest) -> dict[str, str]:
    """Create records of each kind, as large as is accepted; return the latest key of each path parameter."""
    keys = {"contest_key": contest.key, "contest_id": contest.key}
    for method, path, operation in operations(document):
        creates = method == "POST" and "201" in operation["responses"] and "requestBody" in operation
        if not creates or "/keys" in path or path.startswith(("/operations", "/legacy", "/dashboard")):
            continue
        described = resolved(document, operation["requestBody"])
        if JSON not in described["content"]:
            continue
        schema, most = described["content"][JSON]["schema"], most_bytes(document, operation)
        for _ in range(RECORDS):
            budget, status = most, UNANSWERED
            while status != 201 and budget > most // LARGE_SHARE:
                content = largest(document, schema, budget)
                answer = await client.post(filled(path, keys), content=content, headers={"content-type": JSON})
                status, budget = answer.status_code, budget // 2
            if status == 201 and (location := answer.headers.get("location")):
                resource, _, key = location.strip("/").rpartition("/")
                keys[f"{resource.rpartition('/')[2].removesuffix('s')}_key"] = key
    return keys


async def attack_routes(
    attack: Attack, client: httpx.AsyncClient, document: dict[str, Any], keys: dict[str, str]
) -> None:
    """Send the worst bodies and queries to each operation of the document."""
    chance = Random(datetime.now(UTC).toordinal())
    for method, path, operation in operations(document):
        at, query = filled(path, keys), worst_query(operation)
        bodies = list(bodies_of(document, operation)) if "requestBody" in operation else [NO_BODY]
        for body in chance.sample(bodies, min(BODIES, len(bodies))):
            headers = {"content-type": body.media_type} if body.media_type else {}
            await attack.send(client, method, at, body.kind, content=body.content, headers=headers)
        if query:
            await attack.send(client, method, at, "limit", params={"limit": "100"} if "limit" in query else {})
            await attack.send(client, method, at, "query", params=query)


async def attack_undocumented(
    attack: Attack, nobody: httpx.AsyncClient, app: FastAPI, document: dict[str, Any]
) -> None:
    """Send a large query and body without a key to each route that the document does not name: pages and files."""
    body, query = unknown_members(), {"x": MARKS * QUERY_MARKS}
    headers = {"content-type": body.media_type}
    served = {path for route in app.routes if isinstance(path := getattr(route, "path_format", None), str)}
    undocumented = {path for path in served - document["paths"].keys() if not path.startswith(LEFT_OUT)}
    assert undocumented
    for path in sorted(undocumented):
        at = filled(path, {})
        await attack.send(nobody, "GET", at, "query", params=query)
        await attack.send(nobody, "POST", at, body.kind, content=body.content, headers=headers)


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield method, path and operation; deletions last."""
    found = [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if method in METHODS
    ]
    yield from sorted(found, key=lambda each: each[0] == "DELETE")


def filled(path: str, keys: dict[str, str]) -> str:
    return re.sub(r"{(\w+)(?::\w+)?}", lambda found: keys.get(found[1], "x"), path)


def worst_query(operation: dict[str, Any]) -> dict[str, str]:
    """Return all of a route's parameters as long runs of marks, numbers as the largest page."""
    named = [each for each in operation.get("parameters", ()) if each.get("in") == "query"]
    return {each["name"]: "100" if each["name"] == "limit" else "a" + MARKS * QUERY_MARKS for each in named}
