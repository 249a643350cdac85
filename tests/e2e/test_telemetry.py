"""Telemetry of a stack's processes: traces from the POST to the fold, and logs."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import httpx
import pytest

from libs.contracts.topics import topics_of, votes_topic
from libs.local_stack.servers import Servers
from libs.local_stack.supervisor import Supervisor
from tests.support.clients.http_clients import http_client
from tests.support.clients.positions import position_tokens
from tests.support.clients.stack_keys import development_client
from tests.support.clients.voting import Api
from tests.support.eventually import eventually
from tests.support.servers.own_stack import open_own_stack
from tests.support.servers.trace_collector import Collector, Span, open_collector

if TYPE_CHECKING:
    from tests.support.servers.secured import Secured


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with open_collector() as collector:
        yield collector


@pytest.fixture(scope="module")
async def traced(
    servers: Servers, secured: Secured | None, collector: Collector, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Supervisor]:
    """A stack that traces what its callers trace, and no more."""
    directory = tmp_path_factory.mktemp("traced")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TALLY_TRACES_URL", collector.url)
        environment.setenv("TALLY_TRACES_RATIO", "0")
        environment.setenv("TALLY_TRUSTED_PROXIES", "127.0.0.1")
        environment.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
        async with open_own_stack(servers, directory, 2, secured=secured) as supervisor:
            yield supervisor


@pytest.fixture
async def client(traced: Supervisor) -> AsyncIterator[httpx.AsyncClient]:
    async with development_client(traced.stack) as client:
        yield client


def traceparent(*, sampled: bool = True) -> tuple[str, dict[str, str]]:
    """A trace's id, and the header that a caller in it sends."""
    trace = uuid.uuid4().hex
    return trace, {"traceparent": f"00-{trace}-{'1' * 16}-{'01' if sampled else '00'}"}


async def test_a_vote_s_trace_begins_with_its_caller_s_and_ends_with_its_fold(
    traced: Supervisor, client: httpx.AsyncClient, collector: Collector
) -> None:
    contest = await Api(client).contest()
    trace, header = traceparent()
    vote = await contest.vote(voter="somebody", headers=header | {"X-Request-Id": "order-7"})
    assert vote.status_code == 201
    topic = votes_topic(traced.stack["namespace"], 2).name

    def whole() -> dict[str, Span]:
        spans = collector.of_trace(trace)
        assert spans.keys() >= {"POST /contests/{contest_key}/votes", f"append {topic}", "confirm", "fold"}
        return spans

    spans = await eventually(whole)
    post = spans["POST /contests/{contest_key}/votes"]
    append, fold = spans[f"append {topic}"], spans["fold"]
    assert (post.service, post.kind, post.parent) == ("tallykeeper-gateway", "server", "1" * 16)
    assert post.attributes["http.response.status_code"] == "201"
    assert post.attributes["tally.request_id"] == "order-7"
    assert (post.attributes["url.path"], post.attributes["url.scheme"]) == (f"{contest.path}/votes", "http")
    assert post.attributes["server.address"] == "127.0.0.1"
    assert {spans[name].parent for name in ("reserve", f"append {topic}", "confirm")} == {post.id}
    assert post.began <= spans["reserve"].began <= append.began <= spans["confirm"].began <= post.ended
    assert (append.kind, append.attributes["messaging.operation.type"]) == ("producer", "send")
    assert (fold.service, fold.kind, fold.parent) == ("tallykeeper-projector", "consumer", append.id)
    assert fold.attributes["messaging.operation.type"] == "process"
    [(batch_trace, batch_id)] = fold.links

    def whole_batch() -> Span | None:
        return next((span for span in collector.spans if (span.trace, span.id) == (batch_trace, batch_id)), None)

    batch = await eventually(whole_batch)
    assert batch is not None
    assert (batch.name, batch.parent, batch.links) == (f"fold {topic}", "", [(trace, append.id)])
    assert batch.began <= fold.began <= fold.ended <= batch.ended
    assert not any(span.failed for span in spans.values())
    exported = repr(collector.spans)
    assert "somebody" not in exported
    assert vote.json()["vote_id"] not in exported


async def test_a_span_s_path_has_the_keys_of_records_and_no_id_of_a_vote_or_voter(
    client: httpx.AsyncClient, collector: Collector
) -> None:
    contest = await Api(client).contest()
    trace, header = traceparent()
    await client.get(f"{contest.path}/votes/of-somebody", headers=header)
    name = "GET /contests/{contest_key}/votes/{vote_id}"
    span = await eventually(lambda: collector.of_trace(trace).get(name))
    assert span is not None
    assert span.attributes["url.path"] == f"{contest.path}/votes/{{vote_id}}"


async def test_a_batch_s_votes_share_a_trace_and_a_write_of_the_catalogue_has_one(
    client: httpx.AsyncClient, collector: Collector
) -> None:
    contest = await Api(client).contest()
    trace, header = traceparent()
    items = [{"participant_key": contest.participants[0], "voter_id": f"v{n}"} for n in range(20)]
    assert (await client.post(f"{contest.path}/votes/batch", json={"votes": items}, headers=header)).is_success
    written, header = traceparent()
    assert (await client.patch(contest.path, json={"title": "Other"}, headers=header)).is_success
    post, patch = "POST /contests/{contest_key}/votes/batch", "PATCH /contests/{contest_key}"
    assert await eventually(lambda: {"fold", post} <= collector.of_trace(trace).keys())
    assert await eventually(lambda: {"fold", patch} <= collector.of_trace(written).keys())


async def test_a_request_that_fails_is_marked_so(
    traced: Supervisor, client: httpx.AsyncClient, collector: Collector
) -> None:
    contest = await Api(client).contest()
    trace, header = traceparent()
    await traced.kill("projector", restart=False)
    try:
        path = f"{contest.path}/vote_updates"
        query = {"min_position": (await position_tokens(traced.stack["storage_url"])).encode({0: 1_000_000})}
        assert (await client.get(path, params=query, headers=header)).status_code == 503
    finally:
        await traced.restart("projector")
    name = "GET /contests/{contest_key}/vote_updates"
    found = await eventually(lambda: collector.of_trace(trace).get(name))
    assert found is not None
    assert found.failed
    assert found.attributes["error.type"] == "503"


async def test_the_projector_says_what_it_needs_and_that_it_has_it(traced: Supervisor) -> None:
    origin = traced.stack["metrics_urls"]["projector"].removesuffix("/metrics")
    names = [topic.name for topic in topics_of(traced.stack["namespace"], 2)]
    async with http_client(base_url=origin) as client:

        async def ready() -> httpx.Response | None:
            try:
                answer = await client.get("/readyz")
            except httpx.TransportError:
                return None  # it was killed a moment ago
            return answer if answer.status_code == 200 else None

        answer = await eventually(ready)
        parts = [*(f"projection of {name}" for name in names), "fences", "closings", "purchases", "paid votes"]
        parts += ["kept generations", "lost records"]
        needed = ["deployment", "log", "start", "views", *names, *parts]
        assert answer is not None
        assert answer.json()["dependencies"] == dict.fromkeys(needed, "ready")
        assert (await client.get("/livez")).json() == {"status": "alive"}


async def test_off_a_terminal_a_part_s_log_is_json_and_says_when_where_and_how_bad(traced: Supervisor) -> None:
    for part in ("gateway", "projector"):
        text = (traced.data_dir / "logs" / f"{part}.log").read_text()
        lines = [json.loads(line) for line in text.splitlines()]
        assert lines
        assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
        assert traced.stack["api_key"] not in text
        assert any(line["logger"].startswith(("uvicorn", "services.", "libs.")) for line in lines)
    fenced = [line for line in lines if "fenced with" in line["message"]]
    assert {line["partition"] for line in fenced} == {0, 1}
    assert all(line["offset"] > 0 for line in fenced)
