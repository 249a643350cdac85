"""`tally wipe`: empties the test environment, and cannot reach production."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from libs.catalogue.api_keys import issue_key, list_keys
from libs.contracts.catalogue_events import OutcomeKind, RecordChanged, RecordCreated
from libs.contracts.topics import legacy_test_namespace, topics_of
from libs.deployment.settings import DeploymentAddresses
from libs.kafka.topics import create_topics
from libs.storage.object_store import environment_files, open_store
from tests.libs.catalogue.conftest import TABLE
from tests.support.builders.catalogue import Catalogue, open_catalogue
from tests.support.clients import commands


@pytest.fixture
async def unfolded(deployment: DeploymentAddresses) -> AsyncIterator[Catalogue]:
    """The test env, without a projector."""
    await create_topics(deployment.kafka_settings, topics_of(deployment.namespace, deployment.partitions))
    name = legacy_test_namespace(deployment.namespace)
    async with open_catalogue(deployment.kafka, deployment.valkey, name, TABLE) as catalogue:
        yield catalogue


@pytest.fixture
async def env(unfolded: Catalogue) -> AsyncIterator[Catalogue]:
    async with unfolded.folding():
        yield unfolded


async def run(*arguments: str, environment: str = "test") -> Result:
    return await commands.run("wipe", "--environment", environment, *arguments)


async def wiped(*arguments: str) -> dict[str, Any]:
    return commands.printed(await run(*arguments, "--json"))


async def contest(env: Catalogue, account: str, participants: int = 0) -> str:
    made = await env.create("contests", account, {"title": "Final"})
    for _ in range(participants):
        await env.create("participants", account, {}, parent=made.key)
    return made.key


async def test_a_wipe_previews_by_account_and_empties_every_list(env: Catalogue, tmp_path: Path) -> None:
    """Also of an account that has no key any more, and of files; keys stay until they are asked for."""
    await contest(env, "a", participants=3)
    await contest(env, "a")
    await contest(env, "without-keys")
    await issue_key(env.writer, "a", ["content:read"])
    store = open_store(str(tmp_path / "objects"))
    names = env.namespace, f"{env.namespace}2"
    mine, others = [f"{environment_files(name)}image/1" for name in names]
    await store.put_if_absent(mine, b"x")
    await store.put_if_absent(others, b"x")
    expected = {
        "accounts": [
            {"account": "a", "records": {"contests": 2, "participants": 3}},
            {"account": "without-keys", "records": {"contests": 1}},
        ],
        "objects": 1,
    }
    assert await wiped() == {**expected, "executed": False}
    assert await wiped("--execute") == {**expected, "executed": True}
    for account in ("a", "without-keys"):
        assert await env.views.page(account, "contests", limit=9) == []
    assert (await store.get(mine), await store.get(others)) == (None, b"x")
    assert (await run()).stdout == "The environment is empty.\n"
    assert (await wiped("--keys"))["accounts"] == [{"account": "a", "records": {"keys": 1}}]
    await wiped("--keys", "--execute")
    assert await list_keys(env.views) == []


async def test_records_that_refer_to_others_go_too(env: Catalogue) -> None:
    """Before what they refer to; also in a cycle, which no order of deletions removes."""
    crate = await env.create("crates", "a", {"title": "Held", "shelves": [{"id": "s"}]})
    await env.create("labels", "a", {"crate": {"key": crate.key}})
    await env.create("shelf_tags", "a", {"shelf": "s"}, parent=crate.key)
    named: dict[str, Any] = {"account": "a", "resource": "labels", "record": "{}", "at": 1}
    first = RecordCreated(key="first", command_id="1", **named)
    second = RecordCreated(key="second", command_id="2", refs=(("labels", "first"),), **named)
    version = (await env.writer.record(first)).offset
    await env.writer.record(second)
    back = RecordChanged(
        key="first", command_id="3", refs=(("labels", "second"),), expected_version=version, **named
    )
    assert (await env.writer.record(back)).kind is OutcomeKind.OK
    assert (await wiped("--execute"))["accounts"][0]["records"] == {"crates": 1, "labels": 3, "shelf_tags": 1}
    assert (await wiped())["accounts"] == []


async def test_without_a_projector_it_stops_and_goes_on_when_there_is_one(unfolded: Catalogue) -> None:
    async with unfolded.folding():
        await contest(unfolded, "a", participants=2)
    stopped = await run("--execute")
    assert stopped.exit_code == 3, stopped.output
    async with unfolded.folding():
        await wiped("--execute")
        assert (await wiped())["accounts"] == []


async def test_production_is_refused(env: Catalogue) -> None:
    refused = await run("--execute", environment="production")
    assert refused.exit_code == 2
    assert "Only the test environment" in refused.stderr
