"""The second machine that `.ci/containers` has entered; its tests run only there."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter

from tests.deploy.machines.machine import Machine

collect_ignore = ["test_compose.py", "test_stack_in_containers.py", "test_kubernetes.py"]
"""They need the machine: `.ci/containers` names them."""
ROW = "row"
"""Property of a test with a row of the table at the end of the run."""
Row = Callable[[str, str], None]


@pytest.fixture
def row(record_property: Callable[[str, object], None]) -> Row:
    """Return a function that adds a row: a step and its result."""
    return lambda step, result: record_property(ROW, (step, result))


@pytest.fixture(scope="session")
def machine() -> Machine:
    try:
        pid, tree, shared = os.environ["TALLY_TESTS_MACHINE"].split(":")
    except KeyError:
        pytest.skip("no second machine is entered: run .ci/containers")
    entered = Machine(Path(tree), Path(shared), own_network=True)
    entered.pid = int(pid)
    return entered


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print what was done and how long it took, as a table of Markdown."""
    reports = [report for outcome in ("passed", "failed") for report in terminalreporter.getreports(outcome)]
    rows = [
        row for report in reports for name, row in report.user_properties if name == ROW and report.when == "call"
    ]
    if rows:
        terminalreporter.section("what was done")
        for cells in (("step", "result"), ("---", "---"), *rows):
            terminalreporter.write_line(f"| {cells[0]} | {cells[1]} |")
