"""`tally demo` as a process: counts equal the fold at its end, also when the projector is killed meanwhile."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from libs.local_stack.reaper import start_time
from tests.services.cli.stack_process import StackProcess
from tests.support.clients.http_clients import http_client
from tests.support.clients.retried import final_answer
from tests.support.clients.stack_keys import development_client
from tests.support.clients.voting import new_id
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow


class Demo(StackProcess):
    """The process; over the session's Kafka and Valkey, in a namespace of its own."""

    def __init__(self, data_dir: Path, *options: str, env: dict[str, str]) -> None:
        command = [sys.executable, "-m", "services.cli", "demo", "--data-dir", str(data_dir), "--port", "0"]
        super().__init__(data_dir, [*command, "--json", "--rate", "80", *options], env)

    async def votes_come_in(self, stack: dict[str, Any], atleast: int = 40) -> None:
        async with development_client(stack, trust_env=False) as client:

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


@pytest.fixture
def start(kafka: str, valkey_address: str, namespace: str, tmp_path: Path) -> Iterator[Any]:
    addresses = {"TALLY_KAFKA_BOOTSTRAP_SERVERS": kafka, "TALLY_VALKEY_URL": valkey_address}
    environment = addresses | {"TALLY_NAMESPACE": namespace, "TALLY_PARTITIONS": "4"}
    started: list[Demo] = []

    def begin(*options: str) -> Demo:
        started.append(Demo(tmp_path / "data", *options, env=environment))
        return started[-1]

    yield begin
    for demo in started:
        demo.kill()


async def vote_of_another(stack: dict[str, Any]) -> None:
    async with development_client(stack, trust_env=False) as client:
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
    for refusal in ("participant_limit_reached", "not_found", "validation_failed"):
        await demo.measured(stack, f'tally_votes_refused_total{{code="{refusal}"}}')
    running = (await demo.stack())["pids"].values()
    demo.process.send_signal(signal.SIGINT)
    code, output, errors = await demo.ended()
    assert code == 0, errors
    result = json.loads(output)
    assert result["check"]["equal"]
    assert result["check"]["vote_ids_accepted"] > 100
    assert result["check"]["vote_ids_of_others"] == 1
    assert result["check"]["verify"]["outcomes"]["counted"] == result["check"]["vote_ids_accepted"] + 1
    assert result["check"]["votes_shown"] == result["check"]["votes_by_the_log"]
    assert {"participant_limit_reached", "not_found", "validation_failed"} <= result["answers"]["refused"].keys()
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
    code, output, errors = await demo.ended()
    assert (code, output) == (1, "")
    assert "without the check" in errors
    assert "Traceback" not in errors
