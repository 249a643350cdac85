"""`tally demo` as a process: counts equal the fold at its end, also when the projector is killed meanwhile."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from libs.local_stack.reaper import start_time
from tests.support.eventually import eventually
from tests.support.http_clients import http_client
from tests.support.retried import final_answer
from tests.support.voting import new_id

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


class Demo:
    """The process; over the session's Kafka and Valkey, in a namespace of its own."""

    def __init__(self, data_dir: Path, environment: dict[str, str], *options: str) -> None:
        self.data_dir = data_dir
        command = [sys.executable, "-m", "services.cli", "demo", "--data-dir", str(data_dir), "--port", "0"]
        self.process = subprocess.Popen(
            [*command, "--json", "--rate", "80", *options],
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    async def stack(self) -> dict[str, Any]:
        """Once it is ready."""

        def ready() -> dict[str, Any] | None:
            assert self.process.poll() is None, self.process.communicate()
            file = self.data_dir / "stack.json"
            return json.loads(file.read_text()) if file.exists() else None

        return await eventually(ready) or {}

    async def votes_come_in(self, stack: dict[str, Any], atleast: int = 40) -> None:
        headers = {"authorization": f"Bearer {stack['api_key']}"}
        async with http_client(base_url=stack["base_url"], headers=headers, trust_env=False) as client:

            async def counted() -> bool:
                contests = (await client.get("/contests")).json().get("data")
                if not contests:
                    return False
                answer = await client.get(f"/contests/{contests[0]['key']}/vote_updates/")
                return bool(answer.json().get("count", 0) >= atleast)

            await eventually(counted, every_s=0.2)

    async def measured(self, stack: dict[str, Any], *texts: str) -> None:
        """Wait until a sample of the gateway's metrics has all these texts."""
        async with http_client(trust_env=False) as client:

            async def counted() -> bool:
                samples = (await client.get(stack["metrics_urls"]["gateway"])).text.splitlines()
                return any(all(text in sample for text in texts) for sample in samples)

            await eventually(counted, every_s=0.2)

    async def ended(self) -> tuple[int, dict[str, Any], str]:
        output, errors = await asyncio.to_thread(self.process.communicate)
        return self.process.returncode, json.loads(output) if output else {}, errors


@pytest.fixture
async def start(kafka: str, valkey_address: str, namespace: str, tmp_path: Path) -> AsyncIterator[Any]:
    environment = {
        "TALLY_KAFKA_BOOTSTRAP_SERVERS": kafka,
        "TALLY_VALKEY_URL": valkey_address,
        "TALLY_NAMESPACE": namespace,
        "TALLY_PARTITIONS": "4",
    }
    started: list[Demo] = []

    def begin(*options: str) -> Demo:
        started.append(Demo(tmp_path / "data", environment, *options))
        return started[-1]

    yield begin
    for demo in started:
        demo.process.kill()
        await demo.ended()


async def vote_of_another(stack: dict[str, Any]) -> None:
    headers = {"authorization": f"Bearer {stack['api_key']}"}
    async with http_client(base_url=stack["base_url"], headers=headers, trust_env=False) as client:
        contest = (await client.get("/contests")).json()["data"][0]["key"]
        participants = (await client.get(f"/contests/{contest}/participants")).json()["data"]
        vote = {"participant_key": participants[0]["key"], "voter_id": "me", "vote_id": new_id()}
        answer = await final_answer(lambda: client.post(f"/contests/{contest}/votes", json=vote))
        assert answer.status_code in (200, 201), answer.text


async def test_after_ctrl_c_counts_equal_the_fold_though_the_projector_was_killed_and_others_voted(
    start: Any,
) -> None:
    demo = start("--seconds", "0")
    stack = await demo.stack()
    await demo.votes_come_in(stack)
    await vote_of_another(stack)
    os.kill(stack["pids"]["projector"], signal.SIGKILL)
    await demo.votes_come_in(stack, atleast=200)
    await demo.measured(stack, 'tally_votes_refused_total{code="participant_limit_reached"}')
    for status in (400, 404):  # malformed_json and not_found, which come with one vote in a hundred
        await demo.measured(stack, "duration_seconds_count{", '/votes"', f'status="{status}"')
    running = (await demo.stack())["pids"].values()
    demo.process.send_signal(signal.SIGINT)
    code, result, errors = await demo.ended()
    assert code == 0, errors
    assert result["check"]["equal"]
    assert result["check"]["vote_ids_accepted"] > 100
    assert result["check"]["vote_ids_of_others"] == 1
    assert result["check"]["verify"]["outcomes"]["counted"] == result["check"]["vote_ids_accepted"] + 1
    assert result["check"]["votes_shown"] == result["check"]["votes_by_the_log"]
    assert {"participant_limit_reached", "not_found", "malformed_json"} <= result["answers"]["refused"].keys()
    assert result["answers"]["replayed"] > 0
    assert "projector runs again" in errors
    assert "curl -X POST" in errors
    assert "Traceback" not in errors
    assert "\x1b" not in errors
    assert not [pid for pid in running if start_time(pid) is not None]


async def test_a_second_ctrl_c_stops_at_once(start: Any) -> None:
    demo = start("--seconds", "0", "--keep")
    stack = await demo.stack()
    await demo.votes_come_in(stack)
    os.kill(stack["pids"]["projector"], signal.SIGSTOP)  # the check would wait for it
    demo.process.send_signal(signal.SIGINT)
    demo.process.send_signal(signal.SIGTERM)  # the same to the command, and two of one kind could become one
    code, result, errors = await demo.ended()
    assert (code, result) == (1, {})
    assert "without the check" in errors
    assert "Traceback" not in errors
