"""Programs that the machine lacks: what a run says of them, and their installation by command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import Program, main

ROOT = Path(__file__).parents[1]
TESTS = """
import sys
from pathlib import Path
from tests.support.programs import Program, Programs

TOOL = Path({tool!r})
WRITE = f"from pathlib import Path; p = Path({tool!r}); p.write_text('#!/bin/sh'); p.chmod(0o755)"
BROKEN = Program("Broken", (sys.executable,), None, "brew install broken", check=("-c", "raise SystemExit(1)"))
FOUND = Program("Python", ("no-such-program", sys.executable), None, "")
TOOL_ROW = Program("Tool", (str(TOOL),), None, "", installer=(sys.executable, "-c", WRITE))


def test_one(programs: Programs) -> None:
    programs.path(BROKEN)


def test_two(programs: Programs) -> None:
    programs.path(BROKEN)


def test_found(programs: Programs) -> None:
    assert programs.path(FOUND) == sys.executable


def test_tool(programs: Programs) -> None:
    programs.path(TOOL_ROW)
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
    assert "LEFT OUT: 2 tests. Broken is missing." in output
    assert "LEFT OUT: 1 test. Tool is missing." in output
    assert "This installs all programs that are missing: uv run python -m tests.support.programs" in output


def test_a_run_installs_nothing_counts_what_it_left_out_and_names_the_command(tmp_path: Path) -> None:
    code, output = run(tmp_path)
    assert code == 0, output
    check_what_was_left_out(output)
    assert not (tmp_path / "tool").exists()


def test_a_run_that_must_be_complete_fails_if_it_left_something_out(tmp_path: Path) -> None:
    code, output = run(tmp_path, workers=2, TALLY_TESTS_COMPLETE="1")
    assert code == 1, output
    assert "TALLY_TESTS_COMPLETE=1 demands all tests" in output
    check_what_was_left_out(output)


def test_the_command_installs_what_is_missing_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = tmp_path / "tool"
    write = f"from pathlib import Path; p = Path({str(tool)!r}); p.write_text('#!/bin/sh'); p.chmod(0o755)"
    row = Program("Tool", (str(tool),), None, "", installer=(sys.executable, "-c", write))
    assert main([row]) == 0
    assert tool.exists()
    assert "Tool is missing. Installing it: " in capsys.readouterr().err


def test_the_command_fails_and_names_a_remedy_of_what_it_cannot_install(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([Program("Absent", ("no-such-program",), None, "brew install absent")]) == 1
    assert "Absent is missing: brew install absent" in capsys.readouterr().err
