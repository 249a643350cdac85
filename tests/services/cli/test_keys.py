"""`tally keys`: its output, and the validity of its keys."""

import json
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from libs.catalogue.api_keys import ApiKeyCache
from libs.contracts.topics import topics_of
from libs.deployment.settings import DeploymentAddresses
from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import create_topics
from libs.tally.time_conversion import microseconds, parse_timestamp
from libs.views.valkey.request_counters import KeyUses
from services.cli.commands.keys import app
from tests.support import commands
from tests.support.catalogue import Catalogue, open_catalogue


@pytest.fixture
async def catalogue(
    kafka: str, valkey_address: str, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Catalogue]:
    objects = str(tmp_path / "objects")
    deployment = DeploymentAddresses(kafka, valkey_address, namespace, 1, objects, {})
    commands.use_deployment(monkeypatch, deployment)
    await create_topics(KafkaSettings(kafka_bootstrap_servers=kafka), topics_of(namespace, 1))
    async with open_catalogue(kafka, valkey_address, namespace) as catalogue, catalogue.folding():
        yield catalogue


run = partial(commands.run, of=app)


async def test_a_key_from_the_command_line_is_good_until_it_is_revoked(catalogue: Catalogue) -> None:
    made = await run("create", "--account", "a", "--permission", "content:read", "--json")
    assert made.exit_code == 0, made.output
    printed = json.loads(made.stdout)
    assert set(printed) == {"key_id", "api_key", "account"}
    ring = ApiKeyCache(catalogue.views)
    key = await ring.find(printed["api_key"])
    assert key is not None
    assert (key.account, key.permissions) == ("a", ("content:read",))
    listed = await run("list", "--json")
    assert [row["key_id"] for row in json.loads(listed.stdout)["keys"]] == [printed["key_id"]]
    assert printed["api_key"] not in listed.stdout
    preview = await run("revoke", printed["key_id"])
    assert (preview.exit_code, "Run again with --execute" in preview.stdout) == (0, True)
    await ring.refresh()
    assert ring.get(printed["api_key"]) is not None
    assert (await run("revoke", printed["key_id"], "--execute")).exit_code == 0
    await ring.refresh()
    assert ring.get(printed["api_key"]) is None
    assert (await run("revoke", printed["key_id"])).exit_code == 2


async def test_a_leaked_key_is_revoked_without_a_preview(catalogue: Catalogue) -> None:
    made = commands.printed(await run("create", "--account", "a", "--permission", "content:read", "--json"))
    revoked = commands.printed(await run("revoke", made["key_id"], "--now", "--json"))
    assert (revoked["executed"], revoked["key"]["key_id"]) == (True, made["key_id"])
    assert commands.printed(await run("list", "--json"))["keys"] == []


async def test_a_key_has_the_rules_that_it_was_made_with_and_its_last_use_is_listed(catalogue: Catalogue) -> None:
    networks = ("--network", "192.0.2.0/24", "--network", "2001:db8::/32")
    rules = ("--name", "Till", "--expires", "30d", "--rate", "0", *networks)
    made = await run("create", "--account", "a", "--permission", "content:read", "--json", *rules)
    key_id = json.loads(made.stdout)["key_id"]
    ring = ApiKeyCache(catalogue.views, KeyUses(catalogue.valkey, catalogue.namespace))
    key = await ring.find_id(key_id)
    assert key is not None
    assert (key.rules.networks, key.rules.rate) == (("192.0.2.0/24", "2001:db8::/32"), 0)
    assert key.rules.expires is not None
    month = 30 * 86_400
    assert month - 600 < key.rules.expires / 1_000_000 - time.time() <= month
    (row,) = commands.printed(await run("list", "--json"))["keys"]
    assert (row["name"], row["networks"], row["last_used"]) == ("Till", ["192.0.2.0/24", "2001:db8::/32"], None)
    ring.mark_used(key_id)
    before = time.time()
    await ring.note_uses()
    (row,) = commands.printed(await run("list", "--json"))["keys"]
    assert abs(microseconds(parse_timestamp(row["last_used"])) / 1_000_000 - before) <= 120
    text = (await run("list")).stdout
    assert (await run("create", "--account", "a", "--permission", "content:read", "--rate", "-1")).exit_code == 2
    assert all(part in text for part in ("Till", row["expires"], "192.0.2.0/24 2001:db8::/32", row["last_used"]))
