"""Runs one real Kafka and one real Valkey for the whole run; each test has its own namespace in them."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings as hypothesis

from libs.local_stack.servers import Servers
from libs.local_stack.settings import StackSettings
from libs.local_stack.startup_report import Report
from tests.support.cpu_time import CpuTime
from tests.support.failure_list import list_failures
from tests.support.marks import add_marks, check_is_not_pure
from tests.support.programs import Programs, list_left_out, must_be_complete
from tests.support.servers.shared_servers import (
    Kind,
    SharedServers,
    shared_servers,
    stop_servers,
    use_given_servers,
)
from tests.support.workers import FileScheduling, number_of_workers, slow_files_first

if TYPE_CHECKING:
    from tests.support.servers.secured import Secured

# No deadlines: the machine may be busy. Tests with their own number of examples scale it
# (support/hypothesis_examples.py).
hypothesis.register_profile("short", deadline=None, max_examples=20)
hypothesis.register_profile("long", deadline=None, max_examples=100)
hypothesis.load_profile(os.environ.get("TALLY_TESTS_PROFILE", "short"))

CLUSTERED = {"TALLY_KAFKA_REPLICATION_FACTOR": "3", "TALLY_PRODUCE_DEADLINE_MS": "30000"}
"""Settings of processes that use three brokers, on a busy machine."""
DIRECTORY = pytest.StashKey[Path]()
CURRENT = pytest.StashKey[pytest.Item]()
CPU_TIME = pytest.StashKey[CpuTime]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cpu-table", action="store_true", help="print where the CPU time goes, by folder and kind of process"
    )


def pytest_configure(config: pytest.Config) -> None:
    sys.dont_write_bytecode = False  # hundreds of commands and services are started: compile them once
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    gc.set_threshold(50_000, 20, 20)
    # no command of a test finds the stack that someone runs on the default directory
    os.environ["TALLY_DATA_DIR"] = str(Path(tempfile.gettempdir(), "tally-tests-without-a-stack"))
    config.stash[CPU_TIME] = CpuTime(config)
    config.pluginmanager.register(config.stash[CPU_TIME])
    worker_input: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker_input is not None:
        config.stash[DIRECTORY] = Path(worker_input["servers"])
        return
    config.stash[DIRECTORY] = Path(tempfile.mkdtemp(prefix="tally-tests-"))
    use_given_servers(config.stash[DIRECTORY])


def pytest_report_header() -> str:
    return "tests of lost cluster members run only if named: tests/faults/test_killed_members.py"


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        servers_s = stop_servers(config.stash[DIRECTORY])
        shutil.rmtree(config.stash[DIRECTORY], ignore_errors=True)
        config.stash[CPU_TIME].write(servers_s)


def pytest_configure_node(node: Any) -> None:
    node.workerinput |= {"servers": str(node.config.stash[DIRECTORY]), "controller": os.getpid()}


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    return number_of_workers(config)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileScheduling:
    return FileScheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        add_marks(item)
    if hasattr(config, "workerinput"):
        slow_files_first(items)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Exclude modules and tests from garbage collection: scanning them took a third of a worker's CPU time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.config.stash[CURRENT] = item


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    yield
    list_failures(terminalreporter)
    list_left_out(terminalreporter)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that had to be complete and left tests out."""
    reporter = session.config.pluginmanager.getplugin("terminalreporter")
    if reporter and reporter.getreports("skipped") and must_be_complete():
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def programs() -> Programs:
    """Find programs that are no part of Python's packages: `programs.path(CLAMD)`, or the test is left out."""
    return Programs()


@pytest.fixture(scope="session")
def shared(pytestconfig: pytest.Config) -> SharedServers:
    """Return the run's servers, started by the first test that needs them.

    With TALLY_TESTS_SECURED set, they use TLS, SASL and ACLs; with TALLY_TESTS_CLUSTERED, they are three brokers
    and a Valkey Cluster of three shards; with TALLY_KAFKA_BOOTSTRAP_SERVERS and TALLY_VALKEY_URL set, they are the
    ones at these addresses.
    """
    check_is_not_pure(pytestconfig.stash[CURRENT])
    controller = getattr(pytestconfig, "workerinput", {}).get("controller", os.getpid())
    kind: Kind = "plain"
    if os.environ.get("TALLY_TESTS_SECURED"):
        kind = "secured"
    elif os.environ.get("TALLY_TESTS_CLUSTERED"):
        kind = "clustered"
        os.environ |= CLUSTERED
    return shared_servers(pytestconfig.stash[DIRECTORY], controller, kind)


@pytest.fixture(scope="session")
def secured(request: pytest.FixtureRequest) -> Iterator[Secured | None]:
    """Return the servers with the operator's settings if TALLY_TESTS_SECURED is set, else None."""
    if not os.environ.get("TALLY_TESTS_SECURED"):
        yield None
        return
    from tests.support.servers.secured import Certificates, Secured, environment  # noqa: PLC0415 (only if needed)

    shared: SharedServers = request.getfixturevalue("shared")
    certificates = Certificates(Path(shared.certificates))
    secured = Secured(shared.kafka, shared.valkey, shared.plain_valkey, certificates)
    with environment(secured.environment("operator")):
        yield secured


@pytest.fixture(scope="session")
async def servers(
    shared: SharedServers, secured: Secured | None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Servers]:
    """Connect to the run's servers. They are never stopped: a test that stops servers uses `breakable`."""
    settings = StackSettings(
        data_dir=tmp_path_factory.mktemp("servers"),
        kafka_bootstrap_servers=shared.kafka,
        valkey_url=shared.valkey,
    )
    async with Servers(settings, report=Report()) as running:
        yield running


@pytest.fixture(scope="session")
async def breakable(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Servers]:
    """Start servers to kill and freeze; in a test with this fixture, `kafka` and `valkey_address` are theirs."""
    settings = StackSettings(
        data_dir=tmp_path_factory.mktemp("breakable"),
        valkey_fsync="no",
        stack="native",
        kafka_bootstrap_servers=None,
        valkey_url=None,
    )
    async with Servers(settings, report=Report()) as running:
        yield running


@pytest.fixture
def servers_of_test(request: pytest.FixtureRequest) -> Servers:
    """Return the breakable servers if the test uses them, else those of the run."""
    name = "breakable" if "breakable" in request.fixturenames else "servers"
    return request.getfixturevalue(name)


@pytest.fixture
def kafka(servers_of_test: Servers) -> str:
    """Return the bootstrap address, `host:port`."""
    return servers_of_test.addresses.kafka


@pytest.fixture
def valkey_address(servers_of_test: Servers) -> str:
    """Return a `redis://` URL."""
    return servers_of_test.addresses.valkey


@pytest.fixture
def namespace(secured: Secured | None) -> str:
    """Return a prefix of topics and keys that no other test has."""
    name = f"t{uuid.uuid4().hex[:8]}"
    if secured is not None:
        secured.allow(name)
    return name
