"""`tally up` as a process: it stops cleanly, and leaves no process behind however it ends."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.local_stack import kafka
from libs.local_stack.reaper import start_time
from tests.services.cli.stack_process import StackProcess
from tests.support.eventually import eventually

pytestmark = [pytest.mark.stack, pytest.mark.slow]

SCRIPT = Path(__file__).parents[2] / "support" / "servers" / "run_tally_up.py"


def start(data_dir: Path) -> StackProcess:
    return StackProcess(data_dir, [sys.executable, str(SCRIPT), str(data_dir)])


@pytest.fixture
def up(tmp_path: Path) -> Iterator[StackProcess]:
    started = start(tmp_path / "data")
    yield started
    started.kill()


def alive(pids: dict[str, int]) -> set[str]:
    return {name for name, pid in pids.items() if start_time(pid) is not None}


async def test_killed_servers_and_parts_come_back_and_neither_sigkill_nor_sigterm_leaves_a_process(
    up: StackProcess,
) -> None:
    pids: dict[str, int] = (await up.stack())["pids"]
    assert alive(pids) == {"gateway", "projector", "kafka", "valkey"}
    assert up.process.pid not in pids.values()
    killed = "kafka", "valkey", "gateway"
    for name in killed:
        os.kill(pids[name], signal.SIGKILL)

    async def repaired() -> dict[str, int]:
        stack = json.loads((up.data_dir / "stack.json").read_text())
        now: dict[str, int] = stack["pids"]
        assert all(now.get(name, pids[name]) != pids[name] for name in killed)
        return now if len(alive(now)) == 4 and await kafka.answers(stack["kafka"]) else {}

    repaired_pids = await eventually(repaired)
    up.process.kill()
    _, _, errors = await up.ended()
    assert "kafka has ended" in errors
    assert "gateway runs again" in errors
    assert "Traceback" not in errors
    await eventually(lambda: not (up.data_dir / "stack.json").exists())
    again = start(up.data_dir)  # starts at once, although the first one stopped nothing itself
    try:
        new_pids: dict[str, int] = (await again.stack())["pids"]
        assert alive(repaired_pids) == set()
        assert alive(new_pids) == {"gateway", "projector", "kafka", "valkey"}
    finally:
        again.process.terminate()
        code, output, errors = await again.ended()
    assert (code, alive(new_pids)) == (0, set())
    assert "export TALLY_API_KEY=the api_key" in output
    assert f"export PATH={Path(sys.executable).parent}:$PATH" in output
    assert "\x1b" not in output + errors
    assert "Traceback" not in errors


async def test_ctrl_c_while_it_starts_ends_it_cleanly(up: StackProcess) -> None:
    logs = up.data_dir / "logs"
    await eventually(lambda: (logs / "kafka.log").exists() and (logs / "valkey.log").exists())
    up.process.send_signal(signal.SIGINT)
    code, _, errors = await up.ended()
    assert code == 0
    assert "Traceback" not in errors
