"""A Valkey that was emptied, restored older or frozen: reads answer 503, never absent or older data."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from libs.catalogue.api_keys import PERMISSIONS
from libs.contracts.topics import CATALOGUE_PARTITIONS, catalogue_topic, topics_of
from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import create_topics
from libs.tally.errors import ViewsUnavailable
from libs.telemetry.redaction import revealed
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.valkey import client as views_client
from libs.views.valkey.client import ValkeyClient
from libs.views.valkey.function_loading import load_functions, open_valkey
from libs.web.server.http_middleware import HttpMiddleware
from services.gateway.app import open_app
from services.gateway.settings import Settings
from services.projector.app import run
from services.projector.settings import Settings as ProjectorSettings
from tests.support.clients.http_clients import http_client
from tests.support.clients.retried import final_answer
from tests.support.clients.vote_views import VoteViews
from tests.support.clients.voting import Api, Contest, code, new_id
from tests.support.eventually import eventually
from tests.support.servers.deployments import issue_key
from tests.support.servers.freshness import are_fresh
from tests.support.servers.proxy import proxy

pytestmark = pytest.mark.slow

PARTITIONS = 2
ACCOUNT = "acme"

Dump = dict[bytes, bytes]


@dataclass
class Deployment:
    """The whole HTTP API over views that a test keeps, loses and brings back; `projecting` folds."""

    settings: Settings
    valkey: ValkeyClient
    api: Api
    api_key: str

    @asynccontextmanager
    async def projecting(self) -> AsyncIterator[None]:
        task = asyncio.create_task(run(ProjectorSettings(**self.settings.model_dump(include=SHARED))))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def over(self, **settings: str) -> Deployment:
        """The same with other settings, for its projectors and other processes."""
        changed = Settings.model_validate(self.settings.model_dump() | settings)
        return replace(self, settings=changed)

    @asynccontextmanager
    async def another_process(self) -> AsyncIterator[Api]:
        """A gateway that has seen nothing yet."""
        async with open_app(self.settings) as app, self.client(app, self.api_key) as client:
            yield Api(client)

    async def settled(self) -> None:
        """Until every account's records can be read, and every partition takes votes."""
        catalogue = CatalogueViews(self.valkey, self.settings.namespace).fresh
        votes = VoteViews(self.valkey, self.settings.namespace, PARTITIONS)

        async def is_settled() -> bool:
            gates = [(await votes.state(partition)).open for partition in range(PARTITIONS)]
            return all(gates) and await are_fresh(catalogue, CATALOGUE_PARTITIONS)

        await eventually(is_settled)

    @staticmethod
    def client(app: FastAPI, api_key: str) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(HttpMiddleware(app), raise_app_exceptions=False)
        headers = {"authorization": f"Bearer {api_key}", "service-brand": ACCOUNT, "service-key": api_key}
        return httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers, timeout=30)

    async def changes(self, one: Made, **members: str) -> httpx.Response:
        changed = await final_answer(lambda: self.api.client.patch(one.contest.path, json=members))
        assert changed.status_code == 200, changed.text
        return changed

    @asynccontextmanager
    async def recording(self) -> AsyncIterator[Made]:
        """Make a contest with a source and a vote; a projector runs within the context."""
        async with self.projecting():
            await self.settled()
            yield await made(self.api)

    async def recorded(self) -> Made:
        async with self.recording() as one:
            return one

    async def keep(self, part: str = "*") -> Dump:
        """The views as they are."""
        names = await self.valkey.call("KEYS", f"{self.settings.namespace}:{part}")
        dumped = await asyncio.gather(*(self.valkey.call("DUMP", name) for name in names))
        return {name: value for name, value in zip(names, dumped, strict=True) if value is not None}

    async def empty(self, part: str = "*") -> None:
        """As by FLUSHALL, of what is this deployment's."""
        if names := await self.valkey.call("KEYS", f"{self.settings.namespace}:{part}"):
            await self.valkey.call("DEL", *names)

    async def bring_back(self, kept: Dump) -> None:
        """The views as they were kept, of an earlier run of the server, as after a crash."""
        await self.empty()
        for name, value in kept.items():
            await self.valkey.call("RESTORE", name, 0, value)
            if name.endswith(b":generations"):
                await self.valkey.call("HSET", name, "fresh", "an-earlier.run")
            if name.endswith(b":gate"):
                await self.valkey.call("HSET", name, "run", "an-earlier.run")


SHARED = {"namespace", "partitions", "valkey_url", "storage_url", *KafkaSettings.model_fields}


@pytest.fixture
async def deployment(kafka: str, valkey_address: str, namespace: str, tmp_path: Path) -> AsyncIterator[Deployment]:
    settings = Settings(
        kafka_bootstrap_servers=kafka,
        valkey_url=valkey_address,
        namespace=namespace,
        partitions=PARTITIONS,
        storage_url=str(tmp_path),
    )
    await create_topics(settings, topics_of(namespace, PARTITIONS))
    valkey = open_valkey(valkey_address)
    await load_functions(valkey)
    deployment = Deployment(settings, valkey, Api(http_client()), "")
    async with deployment.projecting():
        issued = await eventually(lambda: _issued(kafka, settings))
    deployment.api_key = issued
    async with open_app(settings) as app, deployment.client(app, issued) as client:
        deployment.api = Api(client)
        yield deployment
    await valkey.close()


async def _issued(kafka: str, settings: Settings) -> str:
    with suppress(ViewsUnavailable):  # the projector begins
        valkey = revealed(settings.valkey_url)
        return (await issue_key(kafka, valkey, settings.namespace, ACCOUNT, PERMISSIONS)).api_key
    return ""


@dataclass
class Made:
    """A contest with a source and a vote, its record, and every question about them."""

    contest: Contest
    vote_id: str
    record: Any = None

    def questions(self, client: httpx.AsyncClient) -> dict[str, httpx.Request]:
        """Return requests that can be sent repeatedly: their ids stay the same."""
        path, voter = self.contest.path, {"voter_id": "v1"}
        body = {"participant_key": self.contest.participants[0], "voter_id": new_id(), "vote_id": new_id()}
        report = {"report_id": new_id(), "counts": [{"mapped_id": "a", "count": 3}]}
        ask = client.build_request
        return {
            "contest": ask("GET", path),
            "contests": ask("GET", "/contests"),
            "participants": ask("GET", f"{path}/participants"),
            "counts": ask("GET", f"{path}/vote_updates/"),
            "public": ask("GET", f"/public{path}/results"),
            "change": ask("PATCH", path, json={"title": "Final"}),
            "deletion": ask("DELETE", f"/participants/{self.contest.participants[1]}"),
            "source": ask("PUT", f"{path}/vote_sources/sms", json=SOURCE),
            "report": ask("POST", f"{path}/vote_sources/sms/counts", json=report),
            "vote": ask("POST", f"{path}/votes", json=body),
            "allowance": ask("GET", f"{path}/allowance", params=voter),
            "status": ask("GET", f"{path}/votes/{self.vote_id}", params=voter),
            "removal": ask("DELETE", f"{path}/votes/{self.vote_id}", params=voter),
            "legacy": ask("GET", f"/legacy/contests/{self.contest.key}"),
        }


SOURCE: dict[str, Any] = {"mapping": {}}


async def made(api: Api) -> Made:
    """Make the contest, and wait until its vote is counted: from then on its record stays the same."""
    contest = await api.contest(is_vote_removal_allowed=True)
    made = Made(contest, new_id())
    source = await final_answer(lambda: api.client.put(f"{contest.path}/vote_sources/sms", json=SOURCE))
    assert source.status_code in (200, 201), source.text
    vote = await final_answer(lambda: contest.vote(voter="v1", vote_id=made.vote_id))
    assert vote.status_code in (200, 201), vote.text

    async def is_counted() -> bool:
        counts = await api.client.get(f"{contest.path}/vote_updates/")
        return counts.status_code == 200 and counts.json()["count"] == 1

    await eventually(is_counted)
    made.record = (await answered(api, contest.path)).json()
    return made


async def answered(api: Api, path: str) -> httpx.Response:
    """Return the first answer that is 200."""

    async def answer() -> httpx.Response:
        found = await api.client.get(path)
        assert found.status_code == 200, found.text
        return found

    return await eventually(answer)


async def assert_recovered(one: Made, api: Api) -> None:
    """The record is what it was, and the vote is there."""
    assert (await answered(api, one.contest.path)).json() == one.record
    await answered(api, f"{one.contest.path}/votes/{one.vote_id}?voter_id=v1")


async def assert_available(one: Made, api: Api) -> None:
    """A deletion that took effect although it was answered with 503 is answered with 404."""
    for name, question in one.questions(api.client).items():
        answer = await final_answer(partial(api.client.send, question))
        assert answer.status_code < 300 or (name, answer.status_code) == ("deletion", 404), (name, answer.text)


async def assert_unavailable(one: Made, api: Api, *, but_for: str = "") -> None:
    questions = one.questions(api.client)
    answers = await asyncio.gather(*map(api.client.send, questions.values()))
    found = dict(zip(questions, (answer.status_code for answer in answers), strict=True))
    found.pop(but_for, None)
    assert found == dict.fromkeys(found, 503)


async def test_nothing_is_absent_while_an_emptied_view_is_not_folded_again(deployment: Deployment) -> None:
    one = await deployment.recorded()
    await deployment.empty()
    await assert_unavailable(one, deployment.api)
    await assert_unavailable(one, deployment.api)  # nothing was learned from the first answers
    async with deployment.another_process() as other:
        await assert_unavailable(one, other)
        vote = await other.client.post(f"{one.contest.path}/votes", json={"vote_id": "known"})
        assert (code(vote), vote.json()["vote_id"]) == ((503, "views_unavailable"), "known")
        status = await other.client.get(f"{one.contest.path}/votes/known?voter_id=v1")
        assert (status.status_code, status.json()["vote_id"]) == (503, "known")
        ready = await other.client.get("/readyz")
        assert (ready.status_code, ready.json()["dependencies"]["keys"]) == (503, "unavailable")
        async with deployment.projecting():
            await assert_recovered(one, deployment.api)
            await assert_available(one, other)


async def test_an_acknowledged_change_survives_a_view_that_came_back_older(deployment: Deployment) -> None:
    """A PATCH that equals the older record is no reason to write nothing, nor to say that it took effect."""
    async with deployment.recording() as one:
        kept = await deployment.keep()
        changed = await deployment.changes(one, title="Newer")
    await deployment.bring_back(kept)
    await assert_unavailable(one, deployment.api, but_for="status")  # the vote is in the older view, too
    async with deployment.projecting():
        now = await answered(deployment.api, one.contest.path)
        assert now.json()["title"] == "Newer"
        again = await deployment.changes(one, title="Final")
        assert again.json()["title"] == "Final"
        assert again.headers["etag"] not in (now.headers["etag"], changed.headers["etag"])


async def test_hidden_counts_stay_hidden_over_a_view_from_before_they_were(deployment: Deployment) -> None:
    async with deployment.recording() as one:
        results = f"/public{one.contest.path}/results"
        assert (await answered(deployment.api, results)).json()
        kept = await deployment.keep()
        assert (await one.contest.change(vote_visibility="hidden")).status_code == 200
        hidden = await final_answer(lambda: deployment.api.client.get(results))
    await deployment.bring_back(kept)
    async with deployment.another_process() as other, deployment.projecting():
        for api in (deployment.api, other):
            seen = await final_answer(partial(api.client.get, results), every_s=0)
            assert (seen.status_code, _shown(seen)) == (hidden.status_code, _shown(hidden))


def _shown(results: httpx.Response) -> Any:
    return {name: value for name, value in results.json().items() if name != "updated"}


async def test_one_emptied_partition_holds_back_its_accounts_alone(deployment: Deployment) -> None:
    topic = catalogue_topic(deployment.settings.namespace)
    partition = topic.partition_of(ACCOUNT)
    other = next(f"other{n}" for n in range(99) if topic.partition_of(f"other{n}") != partition)
    views = CatalogueViews(deployment.valkey, deployment.settings.namespace)
    one = await deployment.recorded()
    await deployment.empty(f"{{c{partition}.*")
    assert code(await deployment.api.client.get(one.contest.path)) == (503, "views_unavailable")
    assert (await one.contest.vote(voter="v3")).status_code in (201, 503), "what is known of the contest may do"
    assert await views.page(other, "contests", limit=1) == []
    async with deployment.projecting():
        await answered(deployment.api, one.contest.path)


async def test_nothing_is_absent_while_kafka_is_away_during_the_recovery(deployment: Deployment) -> None:
    one = await deployment.recorded()
    await deployment.empty()
    async with proxy(deployment.settings.kafka_bootstrap_servers) as kafka:
        kafka.shut()
        late = deployment.over(kafka_bootstrap_servers=kafka.address)
        async with late.projecting(), late.another_process() as other:
            seen = kafka.refused
            await eventually(lambda: kafka.refused > seen + 10)
            for api in (deployment.api, other):
                await assert_unavailable(one, api)
            kafka.open()
            await assert_recovered(one, other)
            await assert_available(one, deployment.api)


async def test_nothing_is_absent_while_valkey_is_frozen(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes connections and requests, and answers nothing until it goes on."""
    url = deployment.settings.valkey_url.get_secret_value()
    async with proxy(url) as valkey:
        through = deployment.over(valkey_url=valkey.url(url))
        async with through.projecting(), through.another_process() as api:
            await deployment.settled()
            one = await made(api)
            with monkeypatch.context() as impatient:
                impatient.setattr(views_client, "TIMEOUT_S", 1.0)
                valkey.freeze()
                for _ in range(2):
                    await assert_unavailable(one, api)
                valkey.open()
            await assert_recovered(one, api)
            await deployment.settled()
            await assert_available(one, api)
