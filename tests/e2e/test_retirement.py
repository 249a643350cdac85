"""A votes topic whose contests are sealed is dropped: nothing that anyone reads or proves is lost."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from libs.certificates.store import FOLDER
from libs.contracts.topics import Topic
from libs.deployment import votes_topics
from libs.deployment.deployment import Deployment
from libs.kafka.topics import create_missing
from libs.local_stack.servers import Servers
from libs.local_stack.supervisor import Supervisor
from libs.tally.errors import LogUnavailable
from libs.views.hash_tags import base_in
from services.cli.commands.topics import obstacles
from services.cli.deployment_discovery import find_addresses
from tests.e2e.growing_deployment import (
    FIRST,
    LATER,
    Tally,
    accepted,
    contest_of_the_later_topic,
    sealed,
    tally_on,
)
from tests.support.commands import run
from tests.support.commands import tally as run_tally
from tests.support.eventually import eventually
from tests.support.own_stack import open_own_stack
from tests.support.purchases_over_http import becomes, purchase, refund, send
from tests.support.retried import final_answer
from tests.support.voting import Api, Contest, code, hours_from_now

pytestmark = pytest.mark.slow


@pytest.fixture
async def stack(servers: Servers, tmp_path: Path) -> AsyncIterator[Supervisor]:
    """Gateway and projector of a deployment that grows."""
    async with open_own_stack(servers, tmp_path / "stack", FIRST) as supervisor:
        yield supervisor


@pytest.fixture
def tally(stack: Supervisor) -> Tally:
    return tally_on(stack)


async def problems(stack: Supervisor) -> list[str]:
    """The obstacles to the retirement of the first topic, by the preview."""
    done = await run_tally(stack, "topics", "retire", "--json")
    found = json.loads(done.stdout)
    assert done.exit_code == bool(found["obstacles"]), done.output
    assert not found["executed"]
    assert all(each["remedy"] for each in found["obstacles"])
    return [each["problem"] for each in found["obstacles"]]


async def reads_of(contest: Contest, voter: str, vote: httpx.Response) -> dict[str, Any]:
    """The answers of a finished contest to its readers and to a voter."""
    paths = {
        "counts": f"{contest.path}/vote_updates/?sources=true",
        "timeline": f"{contest.path}/timeline?interval=60",
        "votes": f"{contest.path}/votes?voter_id={voter}",
        "vote": f"{contest.path}/votes/{vote.json()['vote_id']}?voter_id={voter}",
        "allowance": f"{contest.path}/allowance?voter_id={voter}",
        "certificate": f"{contest.path}/certificate",
        "public": f"/public/contests/{contest.key}/results?receipt={vote.json()['receipt']}",
    }
    answers = {name: await final_answer(partial(contest.client.get, path)) for name, path in paths.items()}
    assert {name: answer.status_code for name, answer in answers.items()} == dict.fromkeys(paths, 200)
    return {name: answer.json() for name, answer in answers.items()}


async def lose_views(deployment: Deployment, partitions: range) -> None:
    """Delete all that Valkey holds of these partitions, as after the loss of its data."""
    for partition in partitions:
        pattern = base_in(deployment.votes, deployment.namespace, "votes", partition) + ":*"
        cursor: int | bytes = 0
        while True:
            cursor, keys = await deployment.valkey.call("SCAN", cursor, "MATCH", pattern, "COUNT", 1_000)
            if keys:
                await deployment.valkey.call("DEL", *keys)
            if int(cursor) == 0:
                break


async def interrupted(*_: object) -> None:
    """End a command between two steps."""
    raise LogUnavailable("interrupted", retry_after_s=1)


async def test_a_retired_topic_is_gone_and_everything_of_its_contests_stays(
    api: Api, stack: Supervisor, tally: Tally, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, certificate = await api.contest(participants=2), tmp_path / "certificate.json"
    votes = [await accepted(old, f"v{number}") for number in range(6)]
    bought = await send(api.client, purchase(old))
    await becomes(api.client, bought, "cast")
    assert [text.rpartition(" is ")[2] for text in await problems(stack)] == [
        "the newest topic: new contests get it",
        "not closed",
    ]
    await tally("topics", "grow", "--partitions", LATER, "--execute")

    async with Deployment(find_addresses(stack.data_dir)) as deployment:
        new = await contest_of_the_later_topic(api, deployment)
        first, later = deployment.votes.name, deployment.votes.name_from(FIRST)
        assert [text.partition(" is ")[2].partition(":")[0] for text in await problems(stack)] == [
            "new",
            "not closed",
        ]
        monkeypatch.setattr(obstacles, "GROWN_S", 0.0)
        await old.change(end=hours_from_now(-0.001))
        await eventually(lambda: assert_problems(stack, ["is not sealed"]))
        await sealed(tally, old, certificate)
        before = await reads_of(old, "v1", votes[1])
        await eventually(lambda: assert_problems(stack, []))
        [stored] = await deployment.store.names(f"{FOLDER}/{old.key}")
        kept = await deployment.store.get(stored)
        assert kept is not None
        await deployment.store.delete(stored)
        await assert_problems(stack, ["is not in the object store"])
        await deployment.store.replace(stored, kept)
        assert first in await deployment.reader.topics()

        for step in ("archive", "write_index", "delete_topic"):
            with monkeypatch.context() as patched:
                patched.setattr(f"services.cli.commands.topics.retirement.{step}", interrupted)
                done = await run_tally(stack, "topics", "retire", "--execute")
                assert done.exit_code == 3, done.output
            monkeypatch.setattr(votes_topics, "SETTLE_S", -votes_topics.POLL_S)  # all have read the mark now
            unfinished = await run_tally(stack, "topics", "check")
            assert (unfinished.exit_code, "tally topics retire" in unfinished.stdout) == (1, True)
            assert await reads_of(old, "v1", votes[1]) == before
        await tally("topics", "retire", "--execute")
        assert {first, later} & await deployment.reader.topics() == {later}

        for name in ("projector", "gateway", ""):
            assert await reads_of(old, "v1", votes[1]) == before
            await accepted(new, f"before the restart of {name}")
            if name:
                await stack.restart(name)
        assert code(await final_answer(lambda: old.vote(0, voter="late"))) == (409, "contest_not_running")
        repeated = await final_answer(lambda: old.vote(0, voter="v1", vote_id=votes[1].json()["vote_id"]))
        assert (repeated.status_code, repeated.json()["receipt"]) == (200, votes[1].json()["receipt"])
        await refund(api.client, bought)
        await becomes(api.client, bought, "refunded")
        unsealed = await run_tally(stack, "unseal", old.key, "--execute")
        assert (unsealed.exit_code, "was retired" in unsealed.output) == (1, True), unsealed.output

        await deployment.find_topics()
        await lose_views(deployment, range(FIRST))
        await eventually(lambda: assert_reads(old, "v1", votes[1], before))
        await accepted(new, "one more")

    for _ in range(2):
        await tally("verify")
        await tally("certificate", "verify", certificate)
        await tally("replay", "run", "--projection", "votes", "--execute")
        assert await reads_of(old, "v1", votes[1]) == before
    proof = tmp_path / "proof.json"
    await tally("certificate", "prove", old.key, votes[1].json()["receipt"], "--out", proof)
    checked = await run("certificate", "check", proof, certificate)
    assert checked.exit_code == 0, checked.output
    await tally("export", "--to", tmp_path / "export")
    offline = await run("certificate", "verify", certificate, "--export", tmp_path / "export")
    assert offline.exit_code == 0, offline.output
    await assert_importable(stack, tally, tmp_path / "export")
    assert (await new.counts())["count"] >= 2
    assert f"{first}: {FIRST} partitions, retired" in (await tally("topics", "check")).stdout
    await assert_stays_archived(stack, tally, old, votes[1])
    assert "It is retired already." in (await tally("topics", "retire", first, "--execute")).stdout
    await eventually(lambda: tally("status"))


async def assert_problems(stack: Supervisor, ends: list[str]) -> bool:
    found = await problems(stack)
    assert len(found) == len(ends), found
    assert all(text.endswith(end) for text, end in zip(found, ends, strict=True)), found
    return True


async def assert_reads(contest: Contest, voter: str, vote: httpx.Response, before: dict[str, Any]) -> bool:
    assert await reads_of(contest, voter, vote) == before
    return True


async def assert_importable(stack: Supervisor, tally: Tally, export: Path) -> None:
    """An import has the topic in Kafka again, in another namespace only."""
    refused = await run_tally(stack, "import", "--from", export, "--execute")
    assert (refused.exit_code, "has retired topics" in refused.output) == (1, True), refused.output
    namespace = f"{stack.stack['namespace']}new"
    await tally("import", "--from", export, "--namespace", namespace, "--execute")
    async with Deployment(replace(find_addresses(stack.data_dir), namespace=namespace)) as imported:
        await imported.find_topics()
        assert [topic.first for topic in imported.votes.current] == [0, FIRST]
        ends = await imported.reader.end_offsets(imported.votes.name, imported.votes.numbers)
        assert min(ends.values()) > 1


async def assert_stays_archived(stack: Supervisor, tally: Tally, old: Contest, vote: httpx.Response) -> None:
    """A topic that a client made Kafka create again, empty, is dropped, and not copied."""
    async with Deployment(find_addresses(stack.data_dir)) as deployment:
        settings, name = deployment.kafka_settings, deployment.votes.name
        before = await reads_of(old, "v1", vote)
        await create_missing(settings, [Topic(name, 1)])
        assert (await run_tally(stack, "topics", "check")).exit_code == 1
        assert await reads_of(old, "v1", vote) == before
        await tally("topics", "retire", "--execute")
        assert name not in await deployment.reader.topics()
        await tally("verify")
