"""A deployment: connections are opened on first use, and all are closed."""

from pathlib import Path

import pytest

from libs.deployment.deployment import Deployment
from libs.deployment.identity import create_deployment
from libs.deployment.settings import DeploymentAddresses
from libs.kafka.errors import WrongTopic
from libs.tally.errors import NotFound
from tests.support.folded_log import folded_log


def somewhere() -> DeploymentAddresses:
    raise LookupError("nowhere")


async def test_nothing_is_looked_for_until_it_is_used() -> None:
    async with Deployment(somewhere) as deployment:
        pass
    with pytest.raises(LookupError):
        _ = deployment.valkey


async def test_what_was_opened_is_closed(kafka: str, valkey_address: str, namespace: str, tmp_path: Path) -> None:
    addresses = DeploymentAddresses(kafka, valkey_address, namespace, 2, str(tmp_path), {})
    async with Deployment(addresses) as deployment:
        await create_deployment(deployment.kafka_settings, deployment.votes, deployment.store)
        log = await deployment.log()
        assert await deployment.log() is log
        ends = await deployment.reader.end_offsets(deployment.votes.name, [0, 1])
        assert ends == {0: 1, 1: 1}
        await deployment.valkey.call("PING")
    with pytest.raises(Exception, match=r"stopping|closed"):
        await log.append(deployment.votes.name, 0, b"{}")


async def test_a_log_with_wrong_topics_is_not_written_to(
    kafka: str, valkey_address: str, namespace: str, tmp_path: Path
) -> None:
    async with Deployment(
        DeploymentAddresses(kafka, valkey_address, namespace, 2, str(tmp_path), {})
    ) as deployment:
        with pytest.raises(WrongTopic, match="does not exist"):
            await deployment.log()
        await deployment.log(check=False)


async def test_an_unknown_contest_has_no_owner(kafka: str, valkey_address: str, namespace: str) -> None:
    async with folded_log(kafka, valkey_address, namespace) as log, Deployment(log.stack) as deployment:
        await log.begin_catalogue()
        with pytest.raises(NotFound, match="Contest nowhere not found"):
            await deployment.catalogue.owner_of("nowhere")
