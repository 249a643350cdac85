"""A worker with other settings is refused with the reason; one without Kafka waits."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx

from libs.local_stack.supervisor import Supervisor
from tests.support.another_gateway import another_gateway
from tests.support.eventually import eventually
from tests.support.voting import Api


def says(client: httpx.AsyncClient, log: Path, reason: str) -> Callable[[], Awaitable[bool]]:
    """It is not ready, and its log says why."""

    async def said() -> bool:
        try:
            answer = await client.get("/readyz")
        except httpx.TransportError:
            return False
        assert answer.status_code == 503
        assert answer.json()["dependencies"]["deployment"] == "unavailable"
        return reason in await asyncio.to_thread(log.read_text)

    return said


async def test_workers_that_are_set_otherwise_take_no_votes_and_answer_nothing(
    api: Api, stack: Supervisor, tmp_path: Path
) -> None:
    contest = await api.contest()
    body = {"participant_key": contest.participants[0], "voter_id": "v"}
    assert (await contest.vote()).status_code == 201
    namespace, partitions = stack.stack["namespace"], str(stack.stack["partitions"] + 1)
    logs = [tmp_path / name for name in ("partitions", "store", "away")]
    async with (
        another_gateway(stack, logs[0], TALLY_PARTITIONS=partitions) as displaced,
        another_gateway(stack, logs[1], TALLY_STORAGE_URL=str(tmp_path / "own")) as renaming,
        another_gateway(stack, logs[2], TALLY_KAFKA_BOOTSTRAP_SERVERS="127.0.0.1:1") as waiting,
    ):
        reasons = f"nothing is served: topic {namespace}.votes", "nothing is served: the object store", "waiting: "
        for client, log, reason in zip((displaced, renaming, waiting), logs, reasons, strict=True):
            await eventually(says(client, log, reason), deadline_s=120)
        for client in (displaced, renaming):
            for answer in (
                await client.post(f"{contest.path}/votes", json=body),
                await client.get(f"{contest.path}/vote_updates/"),
                await client.get(f"{contest.path}/allowance", params={"voter_id": "v1"}),
            ):
                assert (answer.status_code, answer.json()["code"]) == (503, "log_unavailable")
        assert (await waiting.post(f"{contest.path}/votes", json=body)).status_code == 503
        assert (await waiting.get(f"{contest.path}/vote_updates/")).status_code == 200
