"""`GET /operations/status`: the content of `tally status` over HTTP, also with unavailable servers."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest

from libs.deployment.deployment import open_deployment
from libs.monitoring.health_problems import as_json
from libs.storage.object_store import open_store
from libs.views.generations.generations import ProjectionName, projections_of
from libs.web.server.http_middleware import HttpMiddleware
from libs.web.server.http_service import build_app
from services.dashboard.app import open_module
from services.dashboard.settings import Settings
from services.dashboard.status import STATUS
from tests.services.query.query_environment import PUBLISHED, Catalogue
from tests.support.builders.contests import a_cast
from tests.support.builders.folded_log import FoldedLog, folded_log
from tests.support.eventually import eventually
from tests.support.servers.deployments import read_status
from tests.support.servers.proxy import proxy

PATH = "/operations/status"
NOW_AND_THEN = {"lag_s", "processed_per_s", "oldest_pending_s", "left_s", "valkey_clock_off_s"}
"""Return the differences to another read."""


@pytest.fixture(autouse=True)
def nothing_stalls(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a test takes: no projector folds what it does not fold itself."""
    monkeypatch.setattr("libs.monitoring.lag.STALLED_MS", 3_600_000)


@pytest.fixture
async def log(kafka: str, valkey_address: str, namespace: str, tmp_path: Path) -> AsyncIterator[FoldedLog]:
    async with folded_log(kafka, valkey_address, namespace) as log:
        log.stack = replace(log.stack, storage_url=str(tmp_path))
        yield log


@pytest.fixture
async def catalogue(log: FoldedLog) -> Catalogue:
    catalogue = Catalogue(log.valkey, log.stack.namespace)
    await catalogue.begin()
    return catalogue


@asynccontextmanager
async def served(log: FoldedLog, catalogue: Catalogue, **changes: Any) -> AsyncIterator[httpx.AsyncClient]:
    """The dashboard over this log, for a caller with the permission."""
    stack = log.stack
    wanted: dict[str, Any] = {
        "kafka_bootstrap_servers": stack.kafka,
        "valkey_url": stack.valkey,
        "namespace": stack.namespace,
        "partitions": stack.partitions,
        "storage_url": stack.storage_url,
    }
    key = await catalogue.key(permissions=("operations",))
    settings = Settings(**(wanted | changes))
    async with open_deployment(settings) as servers, open_module(settings, servers) as http_module:
        transport = httpx.ASGITransport(HttpMiddleware(build_app("dashboard", [http_module])))
        headers = {"authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://here", headers=headers) as client:
            yield client


async def status(client: httpx.AsyncClient) -> dict[str, Any]:
    answer = await client.get(PATH)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    jsonschema_rs.validate(STATUS.json_schema(mode="serialization"), found)
    return found


def settled(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: settled(item) for name, item in value.items() if name not in NOW_AND_THEN}
    return [settled(item) for item in value] if isinstance(value, list) else value


async def test_it_says_what_tally_status_says(log: FoldedLog, catalogue: Catalogue) -> None:
    await log.append([a_cast(), a_cast(vote_id="again"), b"poison"])
    await log.fold()
    await log.append([a_cast(vote_id="not folded yet")])
    await projections_of(log.valkey, log.stack.namespace, log.stack.partitions)[ProjectionName.VOTES].open(0, 2)
    async with served(log, catalogue) as client:
        found = await status(client)
        read = json.loads(json.dumps(as_json(await read_status(log.stack))))
    first = found["projections"]["votes"][0]
    assert (first["position"], first["end"], first["lag"], first["quarantined"]) == (4, 5, 1, 1)
    (building,) = found["generations"]
    assert (building["state"], building["processed"], building["end"]) == ("building", 0, 5)
    assert {"gate", "quarantine"} <= {problem["kind"] for problem in found["problems"]}
    for name in ("projections", "totals", "generations", "sealed", "problems"):
        assert settled(found[name]) == settled(read[name])


async def test_it_takes_the_permission_operations(log: FoldedLog, catalogue: Catalogue) -> None:
    async with served(log, catalogue) as client:
        unknown = await client.get(PATH, headers={"authorization": ""})
        key = await catalogue.key("other", permissions=("results:read",))
        refused = await client.get(PATH, headers={"authorization": f"Bearer {key}"})
    assert unknown.status_code == 401
    assert (refused.status_code, "operations" in refused.json()["detail"]) == (403, True)


async def test_sealed_contests_are_those_of_the_caller_s_account(log: FoldedLog, catalogue: Catalogue) -> None:
    store = open_store(log.stack.storage_url)
    seal = {"seq": 1, "sha256": "ab" * 32, "sealed_at": 1_790_000_000_000_000}
    async with served(log, catalogue) as client:
        for account in ("acme", "zenith"):
            await store.put_if_absent(f"certificates/of-{account}/1.json", b"{}")
            await catalogue.create(
                "contests", f"of-{account}", PUBLISHED | {"title": "Final", "seal": seal}, account
            )

        async def are_the_callers() -> bool:
            found = await status(client)
            return [(one["contest"], one["title"]) for one in found["sealed"]] == [("of-acme", "Final")]

        await eventually(are_the_callers)


async def test_looks_are_shared_by_all_who_ask_and_begin_apart(
    log: FoldedLog, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.dashboard.status.APART_S", 60.0)
    async with served(log, catalogue) as client:
        looks = {found["at"] for found in await asyncio.gather(*(status(client) for _ in range(20)))}
        assert {(await status(client))["at"]} == looks
        monkeypatch.setattr("services.dashboard.status.APART_S", 0.0)
        assert (await status(client))["at"] not in looks


async def test_while_valkey_is_away_it_says_so_beside_what_was_read_before(
    log: FoldedLog, catalogue: Catalogue
) -> None:
    url = log.stack.valkey
    async with proxy(url) as valkey, served(log, catalogue, valkey_url=valkey.url(url)) as client:
        before = await status(client)
        assert "away" not in {problem["kind"] for problem in before["problems"]}
        valkey.shut()

        async def is_away() -> dict[str, Any]:
            found = await status(client)
            assert found["problems"][0]["kind"] == "away"
            return found

        away = await eventually(is_away)
        assert "temporarily unavailable" in away["problems"][0]["detail"]
        assert away["projections"] == before["projections"]
        assert away["at"] == before["at"] < away["now"]
        valkey.open()

        async def is_back() -> bool:
            found = await status(client)
            return bool(found["at"] > before["at"] and found["problems"] == before["problems"])

        await eventually(is_back)


async def test_a_kafka_that_says_nothing_does_not_hold_the_answer(
    log: FoldedLog, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.dashboard.status.PATIENCE_S", 0.5)

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # until the client leaves
        writer.close()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as silent:
        host, port = silent.sockets[0].getsockname()[:2]
        async with served(log, catalogue, kafka_bootstrap_servers=f"{host}:{port}") as client:
            async with asyncio.timeout(60):
                (problem,) = (await status(client))["problems"]
    assert problem["detail"] == "could not be read within 0.5 s"
