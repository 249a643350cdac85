"""`tally topics`: says all that is wrong at once, and the remedy."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import NewTopic

from libs.contracts.topics import topics_of
from libs.deployment.settings import DeploymentAddresses
from libs.kafka.topics import create_topics, open_admin, required_settings
from services.cli.commands.topics import app
from tests.support.clients import commands
from tests.support.clients.log_writers import open_writer
from tests.support.servers.topics import alter_topic

run = partial(commands.run, of=app)


async def problems() -> list[dict[str, Any]]:
    checked = await run("check", "--json")
    assert checked.stdout, checked.stderr
    found = [problem for row in json.loads(checked.stdout)["topics"] for problem in row["problems"]]
    assert checked.exit_code == bool(found)
    return found


async def test_missing_topics_are_named_with_the_command_that_makes_them(deployment: DeploymentAddresses) -> None:
    names = [topic.name for topic in topics_of(deployment.namespace, 2)]
    assert await problems() == [
        {"problem": f"topic {name} does not exist", "remedy": "tally topics create"} for name in names
    ]
    made = await run("create")
    *lines, rests_on = made.stdout.splitlines()
    assert (made.exit_code, len(lines)) == (0, len(names))
    assert "on the disk of its only replica, before it is acknowledged" in rests_on
    assert await problems() == []
    plain = (await run("check")).stdout
    assert f"{deployment.namespace}.votes: 2 partitions, correct" in plain


async def test_everything_that_is_wrong_is_named_at_once_with_its_remedy(
    deployment: DeploymentAddresses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run("create")
    votes, purchases, *_ = (topic.name for topic in topics_of(deployment.namespace, 2))
    await alter_topic(deployment.kafka_settings, votes, {"retention.ms": "1000", "cleanup.policy": "compact"})
    await alter_topic(deployment.kafka_settings, purchases, {"retention.bytes": "1000"})
    monkeypatch.setenv("TALLY_STORAGE_URL", str(tmp_path / "another"))
    found = {one["problem"]: one["remedy"] for one in await problems()}
    [store] = [problem for problem in found if "the object store (TALLY_STORAGE_URL) is not the one" in problem]
    assert set(found) == {
        f"topic {votes}: retention.ms is 1000, but must be -1",
        f"topic {votes}: cleanup.policy is compact, but must be delete",
        f"topic {purchases}: retention.bytes is 1000, but must be -1",
        store,
    }
    assert "set TALLY_STORAGE_URL to the object store that this log was begun with" in found[store]
    servers = deployment.kafka_settings.kafka_bootstrap_servers
    assert found[f"topic {votes}: retention.ms is 1000, but must be -1"] == (
        f"kafka-configs.sh --alter --bootstrap-server {servers} --entity-type topics --entity-name {votes} "
        "--add-config retention.ms=-1"
    )
    made = await run("create")
    assert made.exit_code == 1
    assert "tally topics check" in made.stderr
    monkeypatch.setenv("TALLY_PARTITIONS", "3")
    found = {one["problem"]: one["remedy"] for one in await problems()}
    assert f"topic {purchases}: partitions is 2, but must be 3" in found
    assert "TALLY_PARTITIONS=2" in found[f"topic {votes}: partitions is 2, but must be 3"]


async def test_a_topic_that_something_else_began_differs_from_one_that_is_empty(
    deployment: DeploymentAddresses,
) -> None:
    votes, purchases, *others = topics_of(deployment.namespace, 2)
    await create_topics(deployment.kafka_settings, others)
    wanted = required_settings(deployment.kafka_settings)
    bare = [NewTopic(topic.name, 2, 1, topic_configs=wanted) for topic in (votes, purchases)]
    async with open_admin(deployment.kafka_settings) as admin:
        await admin.create_topics(bare)
    async with open_writer(deployment.kafka_settings) as writer:
        await writer.append(votes.name, 0, b"{}")
    foreign, empty = await problems()
    assert "LogCreated" in foreign["problem"]
    assert "TALLY_NAMESPACE" in foreign["remedy"]
    assert empty == {
        "problem": f"topic {purchases.name}: a partition is empty, without LogCreated",
        "remedy": "tally topics create",
    }


async def test_an_absent_kafka_is_a_server_that_is_away(
    deployment: DeploymentAddresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TALLY_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    for command in ("check", "create"):
        away = await run(command)
        assert away.exit_code == 3
        assert "tally doctor" in away.stderr
