import json
import subprocess
import sys
from pathlib import Path

import pytest

from libs.local_stack import ports

FEW = range(19900, 19910)
"""None of those that stacks choose from, of which other tests have some."""

CHOOSES = f"""
import sys
from libs.local_stack import ports
ports.SERVER_PORTS = range({FEW.start}, {FEW.stop})
print(*ports.free_ports(4), flush=True)
sys.stdin.read()
"""


def test_stacks_that_start_at_the_same_time_do_not_choose_the_same_ports(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ports, "SERVER_PORTS", FEW)
    with subprocess.Popen(
        [sys.executable, "-c", CHOOSES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        chosen_there = {*map(int, other.stdout.readline().split())}
        file = tmp_path / "ports.json"
        file.write_text(json.dumps({"valkey": min(chosen_there)}))
        here = ports.remembered(file, ["valkey", "kafka"])
        further = ports.free_ports(len(FEW))
        other.stdin.close()
    assert len(chosen_there) == 4
    assert chosen_there.isdisjoint(here.values())
    assert sorted([*chosen_there, *here.values(), *further]) == [*FEW], "each is chosen once"
    assert ports.remembered(file, ["valkey", "kafka"]) == here, "its own claims stay"
