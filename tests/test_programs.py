"""What a run says of programs that the machine lacks."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = """
import sys
from pathlib import Path
from tests.support.programs import Program, Programs

TOOL = Path({tool!r})
WRITE = f"from pathlib import Path; p = Path({tool!r}); p.write_text('#!/bin/sh'); p.chmod(0o755)"
ABSENT = Program("Absent", ("no-such-program",), None, "brew install absent")
BROKEN = Program("Broken", (sys.executable,), None, "brew install broken", check=("-c", "raise SystemExit(1)"))
FOUND = Program("Python", ("no-such-program", sys.executable), None, "")
INSTALLED = Program("Tool", (str(TOOL),), None, "", installer=(sys.executable, "-c", WRITE))


def test_one(programs: Programs) -> None:
    programs.path(ABSENT)


def test_two(programs: Programs) -> None:
    programs.path(ABSENT)


def test_broken(programs: Programs) -> None:
    programs.path(BROKEN)


def test_found(programs: Programs) -> None:
    assert programs.path(FOUND) == sys.executable


def test_installed(programs: Programs) -> None:
    assert programs.path(INSTALLED) == str(TOOL)
"""


def run(directory: Path, workers: int = 0, **environment: str) -> tuple[int, str]:
    file = directory / "test_tools.py"
    file.write_text(TESTS.format(tool=str(directory / "tool")))
    command = f"-p tests.conftest -p no:cacheprovider -c pyproject.toml --rootdir . -n {workers}".split()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *command, str(file)],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("TALLY_")} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def check_what_was_left_out(output: str) -> None:
    assert "LEFT OUT: 2 tests. Absent is missing: brew install absent" in output
    assert "LEFT OUT: 1 test. Broken is missing: brew install broken" in output
    assert output.count("Tests need Tool, which is missing. Installing it: ") == 2, "at once, and at the end"


def test_a_run_counts_what_it_left_out_and_says_how_to_get_it(tmp_path: Path) -> None:
    code, output = run(tmp_path, workers=2)
    assert code == 0, output
    check_what_was_left_out(output)


def test_a_run_that_must_be_complete_fails_if_it_left_something_out(tmp_path: Path) -> None:
    code, output = run(tmp_path, TALLY_TESTS_COMPLETE="1")
    assert code == 1, output
    assert "TALLY_TESTS_COMPLETE=1 demands all tests" in output
    check_what_was_left_out(output)


def test_a_run_installs_nothing_if_it_must_not(tmp_path: Path) -> None:
    code, output = run(tmp_path, TALLY_TESTS_INSTALL="0")
    assert code == 0, output
    assert "LEFT OUT: 1 test. Tool is missing" in output
    assert not (tmp_path / "tool").exists()
