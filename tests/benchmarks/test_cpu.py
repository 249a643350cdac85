"""CPU time of processes below this one."""

import sys
from pathlib import Path

import psutil

from tests.benchmarks.cpu import CpuMeter
from tests.benchmarks.stack import process
from tests.support.eventually import eventually

BUSY = "import sys\nwhile True: pass"


async def test_a_process_that_ended_keeps_the_time_it_was_last_seen_with(tmp_path: Path) -> None:
    script = tmp_path / "tests.benchmarks.peers.busy.py"
    script.write_text(BUSY)
    meter = CpuMeter()
    async with process([sys.executable, str(script)]):
        await eventually(lambda: meter.seconds().get("peer", 0.0) > 0.02, deadline_s=60)
        seen = meter.seconds()["peer"]
    assert meter.seconds()["peer"] >= seen


async def test_children_end_with_their_parent(tmp_path: Path) -> None:
    script = tmp_path / "tests.benchmarks.peers.parent.py"
    stubborn = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: signal.pause()"
    script.write_text(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {stubborn!r}])")
    async with process([sys.executable, str(script)]) as started:
        [child] = await eventually(psutil.Process(started.pid).children, deadline_s=60)
    await eventually(lambda: not child.is_running(), deadline_s=60)


def test_only_the_parts_of_the_work_are_counted() -> None:
    meter = CpuMeter(own="loop")
    sum(range(3_000_000))
    assert set(meter.each_us(10, ("loop", "peer"))) == {"loop"}
    assert meter.each_us(10, ("peer",)) == {}
