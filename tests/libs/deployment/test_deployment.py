"""A deployment: connections are opened on first use, and all are closed."""

from pathlib import Path

import pytest

from libs.deployment.deployment import Deployment
from libs.deployment.settings import DeploymentAddresses
from libs.kafka.errors import WrongTopic


def somewhere() -> DeploymentAddresses:
    raise LookupError("nowhere")


async def test_nothing_is_looked_for_until_it_is_used() -> None:
    async with Deployment(somewhere) as deployment:
        pass
    with pytest.raises(LookupError):
        _ = deployment.valkey


async def test_a_log_with_wrong_topics_is_not_written_to(
    kafka: str, valkey_address: str, namespace: str, tmp_path: Path
) -> None:
    async with Deployment(
        DeploymentAddresses(kafka, valkey_address, namespace, 2, str(tmp_path), {})
    ) as deployment:
        with pytest.raises(WrongTopic, match="does not exist"):
            await deployment.log()
        await deployment.log(check=False)
