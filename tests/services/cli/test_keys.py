"""`tally keys`: its output, and the validity of its keys."""

import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from libs.catalogue.api_keys import ApiKeyCache
from libs.contracts.topics import topics_of
from libs.deployment.settings import DeploymentAddresses
from libs.kafka.topics import create_topics
from libs.tally.time_conversion import microseconds, parse_timestamp
from libs.views.valkey.request_counters import KeyUses
from services.cli.commands.keys import app
from tests.support.builders.catalogue import Catalogue, open_catalogue
from tests.support.clients import commands


@pytest.fixture
async def catalogue(deployment: DeploymentAddresses) -> AsyncIterator[Catalogue]:
    await create_topics(deployment.kafka_settings, topics_of(deployment.namespace, deployment.partitions))
    servers = deployment.kafka, deployment.valkey, deployment.namespace
    async with open_catalogue(*servers) as catalogue, catalogue.folding():
        yield catalogue


run = partial(commands.run, of=app)
CREATE = ("create", "--account", "a", "--permission", "content:read")


async def created(*rules: str) -> dict[str, str]:
    return commands.printed(await run(*CREATE, "--json", *rules))


async def listed() -> list[dict[str, Any]]:
    return commands.printed(await run("list", "--json"))["keys"]


async def test_a_key_from_the_command_line_is_good_until_it_is_revoked(catalogue: Catalogue) -> None:
    printed = await created()
    assert set(printed) == {"key_id", "api_key", "account"}
    ring = ApiKeyCache(catalogue.views)
    key = await ring.find(printed["api_key"])
    assert key is not None
    assert (key.account, key.permissions) == ("a", ("content:read",))
    assert [row["key_id"] for row in await listed()] == [printed["key_id"]]
    assert printed["api_key"] not in (await run("list", "--json")).stdout
    preview = await run("revoke", printed["key_id"])
    assert (preview.exit_code, "Run again with --execute" in preview.stdout) == (0, True)
    await ring.refresh()
    assert ring.get(printed["api_key"]) is not None
    assert (await run("revoke", printed["key_id"], "--execute")).exit_code == 0
    await ring.refresh()
    assert ring.get(printed["api_key"]) is None
    assert (await run("revoke", printed["key_id"])).exit_code == 2
    leaked = (await created())["key_id"]
    revoked = commands.printed(await run("revoke", leaked, "--now", "--json"))
    assert (revoked["executed"], revoked["key"]["key_id"]) == (True, leaked)
    assert await listed() == []


async def test_a_key_has_the_rules_that_it_was_made_with_and_its_last_use_is_listed(catalogue: Catalogue) -> None:
    networks = ("--network", "192.0.2.0/24", "--network", "2001:db8::/32")
    key_id = (await created("--name", "Till", "--expires", "30d", "--rate", "0", *networks))["key_id"]
    ring = ApiKeyCache(catalogue.views, KeyUses(catalogue.valkey, catalogue.namespace))
    key = await ring.find_id(key_id)
    assert key is not None
    assert (key.rules.networks, key.rules.rate) == (("192.0.2.0/24", "2001:db8::/32"), 0)
    assert key.rules.expires is not None
    month = 30 * 86_400
    assert month - 600 < key.rules.expires / 1_000_000 - time.time() <= month
    (row,) = await listed()
    assert (row["name"], row["networks"], row["last_used"]) == ("Till", ["192.0.2.0/24", "2001:db8::/32"], None)
    ring.mark_used(key_id)
    before = time.time()
    await ring.note_uses()
    (row,) = await listed()
    assert abs(microseconds(parse_timestamp(row["last_used"])) / 1_000_000 - before) <= 120
    text = (await run("list")).stdout
    assert all(part in text for part in ("Till", row["expires"], "192.0.2.0/24 2001:db8::/32", row["last_used"]))
    assert (await run(*CREATE, "--rate", "-1")).exit_code == 2
