"""A gateway with other settings is refused with the reason; one without Kafka waits."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from libs.local_stack.supervisor import Supervisor
from services.gateway.app import open_app
from services.gateway.settings import Settings
from tests.support.clients.stack_keys import development_client
from tests.support.clients.voting import Api
from tests.support.eventually import eventually
from tests.support.servers.serving import served


@asynccontextmanager
async def another_gateway(stack: Supervisor, **changes: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Open the gateway of the stack's service in this process, with other settings if `changes` has some."""
    given = {name: stack.stack[name] for name in ("namespace", "partitions", "storage_url")}
    given |= {"kafka_bootstrap_servers": stack.stack["kafka"], "valkey_url": stack.stack["valkey"]}
    async with (
        open_app(Settings.model_validate(given | changes)) as app,
        served(app) as server,
        development_client(stack.stack, base_url=server.url) as client,
    ):
        yield client


async def test_gateways_that_are_set_otherwise_take_no_votes_and_answer_nothing(
    api: Api, stack: Supervisor, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def says(client: httpx.AsyncClient, reason: str) -> bool:
        """It is not ready, and the log says why."""
        answer = await client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json()["dependencies"]["deployment"] == "unavailable"
        return reason in caplog.text

    contest = await api.contest()
    body = {"participant_key": contest.participants[0], "voter_id": "v"}
    assert (await contest.vote()).status_code == 201
    namespace, partitions = stack.stack["namespace"], stack.stack["partitions"] + 1
    async with (
        another_gateway(stack, partitions=partitions) as displaced,
        another_gateway(stack, storage_url=str(tmp_path / "own")) as renaming,
        another_gateway(stack, kafka_bootstrap_servers="127.0.0.1:1") as waiting,
    ):
        for client, reason in (
            (displaced, f"nothing is served: topic {namespace}.votes"),
            (renaming, "nothing is served: the object store"),
            (waiting, "waiting: "),
        ):
            await eventually(partial(says, client, reason), deadline_s=120)
        for client in (displaced, renaming):
            for answer in (
                await client.post(f"{contest.path}/votes", json=body),
                await client.get(f"{contest.path}/vote_updates/"),
                await client.get(f"{contest.path}/allowance", params={"voter_id": "v1"}),
            ):
                assert (answer.status_code, answer.json()["code"]) == (503, "log_unavailable")
        assert (await waiting.post(f"{contest.path}/votes", json=body)).status_code == 503
        assert (await waiting.get(f"{contest.path}/vote_updates/")).status_code == 200
