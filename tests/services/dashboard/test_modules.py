"""The pages' modules without a page: each file of `modules/` is run by node, in a zone whose clocks go back.

`node --test tests/services/dashboard/modules` does the same.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.programs import NODE, Programs

MODULES = Path(__file__).parent / "modules"
TIMEOUT_S = 300


@pytest.mark.parametrize("file", sorted(MODULES.glob("*.test.js")), ids=lambda file: file.name.split(".")[0])
def test_modules_do_what_their_tests_say(programs: Programs, file: Path) -> None:
    environment = os.environ | {"TZ": "Europe/Berlin"}
    command = [programs.path(NODE), "--test", str(file)]
    ran = subprocess.run(command, env=environment, timeout=TIMEOUT_S, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
