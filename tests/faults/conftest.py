"""A gateway and a projector over the run's servers, for files that kill them; the table of faults at the end."""

import os
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter

from libs.local_stack.servers import Servers
from libs.local_stack.supervisor import Supervisor
from tests.support.servers.own_stack import open_own_stack

collect_ignore = ["test_killed_members.py"]
"""It starts a cluster of its own, eighteen processes: it runs with the tests of clusters, or if it is named."""
FIGURES = "figures"
"""Property of a test with a row of the table of faults, which is printed at the end of a run."""


@pytest.fixture(autouse=True)
def seed(request: pytest.FixtureRequest) -> str:
    """Choose by it what voters, buyers and restarts do; printed if the test fails, given by TALLY_FAULTS_SEED."""
    chosen = os.environ.get("TALLY_FAULTS_SEED") or str(random.SystemRandom().getrandbits(32))
    print(f"TALLY_FAULTS_SEED={chosen}")
    random.seed(f"{chosen} {request.node.name}")
    return chosen


@pytest.fixture(scope="module")
async def stack(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Supervisor]:
    """Services of one file, which the other tests do not miss while they are down."""
    async with open_own_stack(servers, Path(tmp_path_factory.mktemp("stack"))) as supervisor:
        yield supervisor


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print a row for each fault, as a table of Markdown."""
    reports = [report for outcome in ("passed", "failed") for report in terminalreporter.getreports(outcome)]
    rows = [
        row
        for report in reports
        if report.when == "call"
        for name, row in report.user_properties
        if name == FIGURES
    ]
    if rows:
        terminalreporter.section("faults and times to heal")
        for cells in (rows[0], ["---"] * len(rows[0]), *(row.values() for row in rows)):
            terminalreporter.write_line("| " + " | ".join(map(str, cells)) + " |")
