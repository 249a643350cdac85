"""Legacy contests without the query service: in both environments, and by permission."""

import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from libs.catalogue.api_keys import PERMISSIONS, issue_key
from libs.contracts.topics import legacy_test_namespace
from libs.deployment.connections import open_connections
from libs.local_stack.servers import Servers
from libs.web.server.http_middleware import HttpMiddleware
from libs.web.server.http_service import build_app
from services.catalogue.app import open_module
from services.catalogue.settings import Settings
from tests.support.catalogue import Catalogue, open_catalogue
from tests.support.permissive_guard import Unguarded

BASES = ("/legacy", "/legacy-test")


@pytest.fixture(scope="module")
async def environments(servers: Servers) -> AsyncIterator[dict[str, Catalogue]]:
    kafka, valkey, name = servers.addresses.kafka, servers.addresses.valkey, f"t{uuid.uuid4().hex[:8]}"
    async with (
        open_catalogue(kafka, valkey, name) as production,
        open_catalogue(kafka, valkey, legacy_test_namespace(name)) as test,
        production.folding(),
        test.folding(),
    ):
        yield dict(zip(BASES, (production, test), strict=True))


@pytest.fixture(scope="module")
async def client(
    environments: dict[str, Catalogue], servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[httpx.AsyncClient]:
    settings = Settings(
        kafka_bootstrap_servers=servers.addresses.kafka,
        valkey_url=servers.addresses.valkey,
        namespace=environments["/legacy"].namespace,
        storage_url=str(tmp_path_factory.mktemp("objects")),
    )
    async with (
        open_connections(settings, guard=Unguarded(settings)) as servers_of_it,
        open_module(settings, servers_of_it) as http_module,
    ):
        transport = httpx.ASGITransport(HttpMiddleware(build_app("Tallykeeper: catalogue", [http_module])))
        async with httpx.AsyncClient(transport=transport, base_url="http://catalogue") as client:
            yield client


async def headers(environment: Catalogue, *permissions: str, brand: str = "acme") -> dict[str, str]:
    issued = await issue_key(environment.writer, brand, permissions or PERMISSIONS)
    return {"service-brand": brand, "service-key": issued.api_key}


async def test_a_write_needs_the_permission_and_the_answer_names_it(
    client: httpx.AsyncClient, environments: dict[str, Catalogue]
) -> None:
    reader = await headers(environments["/legacy"], "content:read")
    for method, path in (("POST", "/contests"), ("POST", "/contests/x"), ("DELETE", "/contests/x")):
        answer = await client.request(method, f"/legacy{path}", headers=reader)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "forbidden")
        assert "content:write" in answer.json()["error"]["message"]
    writer = await headers(environments["/legacy"], "content:write")
    assert (await client.post("/legacy/contests", json={}, headers=writer)).status_code == 200


async def test_items_that_are_no_timeslots_are_named_beside_wrong_ones(
    client: httpx.AsyncClient, environments: dict[str, Catalogue]
) -> None:
    keys, span = (
        await headers(environments["/legacy"]),
        {"start": "2026-05-01T18:00:00Z", "end": "2026-05-01T19:00:00Z"},
    )
    made = await client.post("/legacy/dev/v2/conventions", json=span, headers=keys)
    path = f"/legacy/v2/conventions/{made.json()['convention_key']}/timeslots/multi"
    items = [7, span | {"title": 7}, {"timeslot_key": 1}, {"end": span["end"]}]
    answer = await client.post(path, json={"timeslots": items}, headers=keys)
    message = answer.json()["error"]["message"]
    assert answer.status_code == 400
    assert [each.partition(":")[0] for each in message.split("; ")] == ["0", "1.title", "2", "3.start"]


async def test_a_body_can_be_too_large(client: httpx.AsyncClient, environments: dict[str, Catalogue]) -> None:
    keys = await headers(environments["/legacy"])
    bodies: list[dict[str, Any]] = [
        {"json": {"text": "x" * (1 << 20)}},
        {"data": {"text": "x" * (1 << 20)}},
        {"json": {"text": "x" * 950_000}},
    ]
    for body in bodies:
        answer = await client.post("/legacy/contests", headers=keys, **body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "payload_too_large")


async def test_an_integer_beyond_64_bits_is_refused_in_json_and_in_forms(
    client: httpx.AsyncClient, environments: dict[str, Catalogue]
) -> None:
    keys, wide = await headers(environments["/legacy"]), {"n": 2**70}
    bodies: list[dict[str, Any]] = [
        {"json": {"custom_data": wide}},
        {"data": {"custom_data": json.dumps(wide)}},
    ]
    for body in bodies:
        answer = await client.post("/legacy/contests", headers=keys, **body)
        assert answer.status_code == 400
        assert "custom_data" in answer.json()["error"]["message"]
        assert "64 bits" in answer.json()["error"]["message"]


@pytest.mark.parametrize("field", ["custom_data", "add_participants", "tags"])
async def test_a_form_may_not_nest_deeper_than_a_body(
    client: httpx.AsyncClient, environments: dict[str, Catalogue], field: str
) -> None:
    keys = await headers(environments["/legacy"])
    deep = '{"a":' * 300 + "1" + "}" * 300
    answer = await client.post("/legacy/contests", headers=keys, data={field: deep})
    assert answer.status_code == (400 if field == "custom_data" else 200)


async def test_all_faults_of_a_list_s_query_are_named_at_once(
    client: httpx.AsyncClient, environments: dict[str, Catalogue]
) -> None:
    query = {"scheduled": "maybe", "is_template": "perhaps", "type": "odd"}
    answer = await client.get("/legacy/v2/articles", params=query, headers=await headers(environments["/legacy"]))
    assert answer.status_code == 400
    said = answer.json()["error"]["message"].split("; ")
    assert [each.partition(" ")[0] for each in said] == list(query)
