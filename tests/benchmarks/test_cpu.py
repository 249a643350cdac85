"""CPU time of processes below this one."""

import sys
from pathlib import Path

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


def test_only_the_parts_of_the_work_are_counted() -> None:
    meter = CpuMeter(own="loop")
    sum(range(3_000_000))
    assert set(meter.each_us(10, ("loop", "Kafka"))) == {"loop"}
    assert meter.each_us(10, ("Kafka",)) == {}
