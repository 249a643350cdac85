"""Prometheus metrics equal the requests and votes sent."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from libs.local_stack.servers import Servers
from libs.local_stack.supervisor import Supervisor
from libs.telemetry.metrics import REGISTRY
from libs.web.errors import TABLE
from tests.e2e.conftest import stack_of_the_run
from tests.support.clients.metrics import Scrape, scrape
from tests.support.clients.voting import Api, code, new_id, running
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.support.servers.secured import Secured

FOLDED = ("counted", "overruled", "removed", "replaced", "voided", "late")


@pytest.fixture(scope="module")
async def stack(
    servers: Servers, secured: Secured | None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Supervisor]:
    """Services of this file, whose log gets no record of other tests' contests between two looks."""
    async with stack_of_the_run(servers, secured, tmp_path_factory.mktemp("metrics")) as supervisor:
        yield supervisor


async def look(stack: Supervisor) -> Scrape:
    """Scrape once the log is folded and every process has read it since: early scrapes share a reading."""
    began = time.time()

    async def settled() -> Scrape:
        seen = await scrape(stack.stack["metrics_urls"])
        assert min(seen.samples("tally_standing_timestamp_seconds").values()) > began
        assert seen.shared_total("tally_view_lag_records") == 0
        return seen

    return await eventually(settled)


class Difference:
    def __init__(self, before: Scrape, after: Scrape) -> None:
        self.before, self.after = before, after

    def total(self, name: str, **labels: str) -> float:
        return self.after.total(name, **labels) - self.before.total(name, **labels)

    def shared_total(self, name: str, **labels: str) -> float:
        return self.after.shared_total(name, **labels) - self.before.shared_total(name, **labels)


@pytest.mark.secured
async def test_what_was_answered_and_what_is_folded_agree_with_what_was_cast(api: Api, stack: Supervisor) -> None:
    ratings = await api.contest(1, running(rating={"max_rating": 5}) | {"contest_type": "rating"})
    contest = await api.contest(is_vote_removal_allowed=True)
    closed = await api.contest(start=None, end=None)
    before = await look(stack)

    first = await contest.vote(0, "anna", vote_id="once")
    assert (await contest.vote(0, "anna", vote_id="once")).status_code == 200
    assert code(await contest.vote(0, "anna")) == (409, "participant_limit_reached")
    assert code(await contest.vote(1, "anna", vote_id="once")) == (422, "idempotency_key_reused")
    assert code(await contest.vote("nobody", "bert"))[0] in (404, 422, 409)
    assert (await closed.vote(0, "anna")).status_code == 409
    assert (await contest.vote(0, "anna", source="c-paid")).status_code == 201
    assert (await contest.client.post(f"{contest.path}/votes", content=b"{")).status_code == 400
    assert (await contest.vote(0, headers={"Authorization": "Bearer wrong"})).status_code == 401
    votes = [{"participant_key": contest.participants[1], "voter_id": f"v{n}"} for n in range(3)]
    votes += [{"participant_key": contest.participants[1], "voter_id": "v0"}, {"voter_id": "v9"}]
    batch = await contest.client.post(f"{contest.path}/votes/batch", json={"votes": votes})
    assert [each["status"] for each in batch.json()["results"]] == [201, 201, 201, 409, 422]
    for value in (3, 4):
        assert (await ratings.rate(0, value, "anna")).status_code == 201
    assert (await contest.remove(first, "anna")).status_code == 204

    its = Difference(before, await look(stack))
    assert its.total("tally_votes_accepted_total", source="c-free") == 6
    assert its.total("tally_votes_accepted_total", source="c-paid") == 1
    assert its.total("tally_votes_deduplicated_total") == 1
    assert its.total("tally_votes_unknown_total") == 0
    refused = {
        dict(labels)["code"]: value
        for (_, labels), value in its.after.samples("tally_votes_refused_total").items()
    }
    assert refused.keys() <= TABLE.keys()
    assert its.total("tally_votes_refused_total", code="participant_limit_reached") == 2
    for once in ("idempotency_key_reused", "contest_not_running", "malformed_json", "unauthorized"):
        assert its.total("tally_votes_refused_total", code=once) == 1, once
    assert its.total("tally_votes_refused_total") == 8
    folded = {status: its.shared_total("tally_votes", status=status) for status in FOLDED}
    assert folded == {"counted": 5, "overruled": 0, "removed": 1, "replaced": 1, "voided": 0, "late": 0}
    assert its.total("tally_votes_accepted_total") == sum(folded.values()) + its.shared_total(
        "tally_votes_pending"
    )
    topic = f"{stack.stack['namespace']}.votes"
    fences = its.total("tally_fences_total") + its.shared_total("tally_votes_fenced")
    # a vote that is sent again before it is folded is recorded again
    recorded = 8 + fences + its.shared_total("tally_votes_duplicate")
    assert its.total("tally_append_records_total", topic=topic, outcome="acknowledged") == recorded
    assert its.shared_total("tally_log_end", topic=topic) == recorded
    assert its.total("tally_projection_records_total", topic=topic) == recorded
    assert its.shared_total("tally_view_position", topic=topic) == recorded
    assert its.total("tally_reserve_duration_seconds_count") >= 6


@pytest.mark.secured
async def test_every_metric_of_the_table_is_exported_by_a_running_stack_and_no_other(
    api: Api, stack: Supervisor
) -> None:
    contest = await api.contest()
    before = await look(stack)
    assert (await contest.vote(0, "anna")).status_code == 201
    assert (await contest.vote(0, "anna")).status_code == 409
    async with api.client.stream("GET", f"{contest.path}/vote_updates/stream") as stream:
        chunks = stream.aiter_bytes()  # let go, it would end the stream
        await anext(chunks)
        seen = await look(stack)
    assert Difference(before, seen).total("tally_streams_open", kind="counts") == 1
    assert Difference(before, seen).total("tally_stream_messages_total") >= 1
    assert seen.names == {metric.name for metric in REGISTRY.collect()}
    topics = {dict(labels)["topic"] for _, labels in seen.samples("tally_log_end")}
    namespace = stack.stack["namespace"]
    assert topics == {f"{namespace}{name}" for name in (".votes", ".purchases", ".catalogue", "-test.catalogue")}
    for process in stack.stack["metrics_urls"]:
        up = {labels: value for (of, labels), value in seen.samples("tally_standing_up").items() if of == process}
        assert len(up) == 4
        assert set(up.values()) == {1}


async def test_requests_are_counted_by_the_route_s_template_and_nothing_names_a_contest(
    api: Api, stack: Supervisor
) -> None:
    contest = await api.contest()
    voter = new_id()
    before = await look(stack)
    await contest.vote(0, voter)
    await contest.client.get(f"{contest.path}/votes/{new_id()}", params={"voter_id": voter})
    await contest.client.head(f"{contest.path}/vote_updates/")
    await contest.client.get(f"/nothing/{contest.key}")
    await contest.client.request("PURGE", contest.path)
    after = await look(stack)
    its = Difference(before, after)
    requests = "tally_http_request_duration_seconds_count"
    route = "/contests/{contest_key}"
    assert its.total(requests, method="POST", route=f"{route}/votes", status="201") == 1
    assert its.total(requests, method="GET", route=f"{route}/votes/{{vote_id}}", status="404") == 1
    assert its.total(requests, method="GET", route=f"{route}/vote_updates", status="200") == 1
    assert its.total(requests, method="GET", route="none", status="404") == 1
    assert its.total(requests, method="other", status="405") == 1
    labels = {
        value
        for families in after.families.values()
        for family in families
        for sample in family.samples
        for value in sample.labels.values()
    }
    for secret in (contest.key, *contest.participants, voter):
        assert not [label for label in labels if secret in label]
