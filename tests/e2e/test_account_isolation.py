"""Two brands cannot access each other's records: every documented operation is tried with another's keys.

The list of operations is the served description. One that takes a parameter which `Victim` has no value for fails
the test: say there what it names.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final

import httpx
import pytest

from libs.catalogue.api_keys import PERMISSIONS, issue_key
from libs.catalogue.commands import WriteRequest
from libs.catalogue.contests.vote_sources import source_key
from libs.catalogue.resource_definition import Resource
from libs.catalogue.resource_table import CONTESTS, FEEDS, RESOURCES, VOTE_SOURCES
from libs.contracts import topics
from libs.contracts.catalogue_events import Stored
from libs.local_stack.supervisor import Supervisor
from tests.support.builders.catalogue import Catalogue, open_catalogue
from tests.support.clients.http_clients import http_client
from tests.support.clients.purchases_over_http import PURCHASES, purchase
from tests.support.clients.voting import Contest, new_id

OWN_KEYS: Final = ("/surveys/{survey_key}", "/api/users/{user_id}/purchases")
"""Names that mean another record in each account: tried only for their effect on the victim's."""
BODIES: Final = {
    "/contests/{contest_key}/votes": {"participant_key": "{participant_key}", "voter_id": "v"},
    "/contests/{contest_key}/votes/batch": {"votes": [{"participant_key": "{participant_key}", "voter_id": "v"}]},
    "/contests/{contest_key}/vote_sources/{source}/counts": {
        "report_id": "r",
        "reported_at": "2026-01-01T00:00:00Z",
        "counts": [{"mapped_id": "A", "count": 1, "anonymous_voter_count": 0, "unique_voter_count": 1}],
    },
    "/files/{file_key}": {"description": "Mine"},
    "/contests/{contest_key}/vote_sources/{source}": {"title": "Mine"},
    "/contests/{contest_key}/show": {"message": "Mine"},
    "/contests/{contest_key}/links": {"name": "Mine"},
    "/contests/{contest_key}/reopen": {"end": "2099-01-01T00:00:00Z"},
    "/operations/contests/{contest_key}/reopen": {"end": "2099-01-01T00:00:00Z"},
    "/v2/conventions/{convention_key}/timeslots": {"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T01:00:00Z"},
    "/v2/conventions/{convention_key}/timeslots/multi": {
        "timeslots": [
            {"timeslot_key": "{timeslot_key}", "start": "2026-01-01T00:00:00Z", "end": "2026-01-01T01:00:00Z"}
        ]
    },
    "/v2/feedpages/{from_page_key}/items/{feed_item_id}/move_to": {"index": 0},
    "/v2/feedpages/{from_page_key}/items/{feed_item_id}/move_to/{to_page_key}": {"index": 0},
}
"""Bodies without which an operation would refuse before it reads the record; else `{"title": "Mine"}`."""
MINE: Final = {"title": "Mine"}


@dataclass
class Victim:
    """One record of every resource in each of two environments, and what they look like to their owner."""

    catalogue: Catalogue
    account: str
    records: dict[str, Stored]
    values: dict[str, str]

    @classmethod
    async def made(cls, catalogue: Catalogue, client: httpx.AsyncClient | None) -> Victim:
        """`client` is of an environment where purchases are."""
        account = f"victim-{new_id()[:8]}"
        records: dict[str, Stored] = {}
        for row in sorted(RESOURCES.values(), key=lambda row: row.parent is not None):
            parent = records[row.parent].key if row.parent is not None else ""
            key = source_key(parent, "sms") if row is VOTE_SOURCES else f"own-{new_id()}"
            body = {"title": "Never ends"} if row is CONTESTS else row.example
            made = await catalogue.record_service.create(
                row, account, body, WriteRequest.once(), parent=parent, key=key
            )
            records[row.name] = made.stored
        keys = {f"{row.singular}_key": records[name].key for name, row in RESOURCES.items()}
        ids = {f"{row.singular}_id": records[name].key for name, row in RESOURCES.items()}
        others = {"brand_id": account, "source": "sms", "vote_id": "v1", "user_id": "u1"}
        feed = records[FEEDS.name].key
        others |= dict.fromkeys(("page_key", "from_page_key"), f"{feed}~1")
        others |= {"to_page_key": f"{feed}~2", "feed_item_id": f"{feed}~3"}
        if client is not None:
            issued = await issue_key(catalogue.writer, account, PERMISSIONS)
            others["key_id"] = issued.key_id
            bought = purchase(Contest(client, keys["contest_key"], [keys["participant_key"]]), 1, "u1")
            own_key = {"Authorization": f"Bearer {issued.api_key}"}
            others["purchase_key"] = (await client.post(PURCHASES, json=bought, headers=own_key)).json()["key"]
        return cls(catalogue, account, records, keys | ids | others)

    def at(self, path: str) -> str:
        return re.sub(r"{(\w+)}", lambda match: self.values[match[1]], path)

    def body(self, path: str) -> Any:
        bare = re.sub(r"^/legacy(-test)?(/dev)?", "", path)
        return json.loads(self.at(json.dumps(BODIES.get(bare, MINE))))

    def is_in(self, text: str) -> bool:
        return any(stored.key in text for stored in self.records.values())

    async def is_untouched(self) -> bool:
        found = [await self.catalogue.views.get(self.account, name, own.key) for name, own in self.records.items()]
        return found == list(self.records.values())


@dataclass
class Case:
    """An environment, its victim, and a stranger with all permissions there."""

    victim: Victim
    client: httpx.AsyncClient


@pytest.fixture(scope="module")
async def cases(stack: Supervisor) -> AsyncIterator[dict[str, Case]]:
    own = stack.stack
    found: dict[str, Case] = {}
    async with AsyncExitStack() as opened:
        for namespace, bases in (
            (own["namespace"], ("", "/legacy", "/legacy/dev")),
            (topics.legacy_test_namespace(own["namespace"]), ("/legacy-test", "/legacy-test/dev")),
        ):
            catalogue = await opened.enter_async_context(open_catalogue(own["kafka"], own["valkey"], namespace))
            key = await issue_key(catalogue.writer, f"stranger-{new_id()[:8]}", PERMISSIONS)
            headers = {
                "Authorization": f"Bearer {key.api_key}",
                "service-brand": key.account,
                "service-key": key.api_key,
            }
            client = http_client(base_url=own["base_url"], headers=headers, timeout=30)
            await opened.enter_async_context(client)
            victim = await Victim.made(catalogue, client if "" in bases else None)
            for base in bases:
                found[base] = Case(victim, client)
        yield found


@pytest.fixture(scope="module")
async def operations(cases: dict[str, Case]) -> list[tuple[str, str, str]]:
    """Base, method and path of all that need a key; legacy ones in both spellings."""
    document: dict[str, Any] = (await cases[""].client.get("/openapi.json")).json()
    found = []
    for path, methods in document["paths"].items():
        match = re.fullmatch(r"(/legacy-test|/legacy|)(/dev)?(/.*)", path)
        assert match is not None
        for method, operation in methods.items():
            if operation["security"]:
                spellings = [match[1], f"{match[1]}/dev"] if match[1] else [""]
                found += [(base, method.upper(), match[3]) for base in spellings]
    return found


async def tried(case: Case, base: str, method: str, path: str) -> httpx.Response:
    """The operation as the stranger asks for it, of the victim's records."""
    body = {} if method in ("GET", "DELETE") else {"json": case.victim.body(base + path)}
    where = base + case.victim.at(path)
    names_voter = method in ("GET", "DELETE") and re.search(r"/(votes|allowance)(/|$)", path) is not None
    return await case.client.request(method, where, params={"voter_id": "v"} if names_voter else {}, **body)


def is_refused(answer: httpx.Response) -> bool:
    """As though the record were not there; legacy may say whose it is not."""
    if answer.request.url.path.startswith("/legacy"):
        message = answer.json()["error"]["message"]
        return answer.status_code == 400 and re.search("not found|no permission", message) is not None
    return answer.status_code == 404


async def test_no_operation_reaches_another_brands_record(
    cases: dict[str, Case], operations: list[tuple[str, str, str]]
) -> None:
    reached, named = [], 0
    for base, method, path in operations:
        answer = await tried(cases[base], base, method, path)
        if path in OWN_KEYS:
            continue
        if "{" in path:
            named += 1
            is_apart = is_refused(answer)
        else:
            is_apart = method != "GET" or not cases[base].victim.is_in(answer.text)
        if not is_apart:
            reached.append((answer.status_code, method, base + path, answer.text[:200]))
    assert not reached, reached
    assert named > 70
    for case in cases.values():
        assert await case.victim.is_untouched()


def references() -> list[tuple[Resource, str, str]]:
    return [
        (row, reference.at, reference.to)
        for row in RESOURCES.values()
        for reference in row.references
        if "create" in row.operations and not reference.within_parent
    ]


@pytest.mark.parametrize(("row", "at", "to"), references(), ids=lambda value: getattr(value, "name", value))
async def test_no_record_can_refer_to_another_brands(
    cases: dict[str, Case], row: Resource, at: str, to: str
) -> None:
    client, victim = cases[""].client, cases[""].victim
    body: Any = victim.records[to].key
    for step in reversed(at.split("/")[1:]):
        body = [body] if step == "*" else {step: body}
    if at.startswith("/venues/*/"):
        body["venues"][0]["id"] = "main"
    path = f"/{row.name}"
    if row.parent is not None:
        path = f"/{row.parent}/{(await client.post(f'/{row.parent}', json={})).json()['key']}{path}"
    answer = await client.post(path, json=body)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, at.replace("*", "0"))


async def test_a_key_of_one_world_is_unknown_in_the_other(cases: dict[str, Case]) -> None:
    for base, other in (("/legacy", "/legacy-test"), ("/legacy-test", "/legacy"), ("/legacy-test", "")):
        client = cases[base].client
        assert (await client.get(f"{base}/contests/x")).status_code == 400
        for method, path in (("GET", "/contests/x"), ("POST", "/contests"), ("DELETE", "/contests/x")):
            assert (await client.request(method, other + path)).status_code == 401
