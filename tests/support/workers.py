"""Distributes a run over workers: their number, and the tests that stay together."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling
from xdist.workermanage import WorkerController

MOST_WORKERS = 4
"""Workers at most: each runs its own services, whose processes need CPU time, too."""
FOLDERS_WITH_A_SERVICE = ("tests/browser/", "tests/services/cli/replay/")
"""Folders whose tests share a service; one worker runs all tests of a folder."""
BREAKING = "files that break servers"
FILES_THAT_BREAK_SERVERS = (
    "tests/libs/kafka/test_writer.py",
    "tests/libs/local_stack/test_kafka_aot_cache.py",
    "tests/libs/projection/test_projector.py",
    "tests/libs/replay/test_generation_fold.py",
    "tests/services/projector/test_service.py",
    "tests/services/query/streams/test_slow_clients_and_failures.py",
)
"""Files that use the fixture `breakable`; one worker runs them all, as each worker would start a Kafka for it."""
E2E = "tests/e2e/"
"""Each worker that runs tests of this folder starts a service for them, which ends with the last one."""
E2E_WORKERS = frozenset({"gw0", "gw1"})
"""The workers that run `E2E`; others do only when nothing else is left, as each starts one more service."""


def number_of_workers(config: pytest.Config) -> int:
    """Return the number of workers: two more than processors, as tests wait more than half of their time.

    0 for selected files, as starting workers takes longer than it saves.
    """
    if chosen := os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return int(chosen)
    if all(Path(str(argument).partition("::")[0]).suffix for argument in config.args):
        return 0
    return min((os.cpu_count() or 1) + 2, MOST_WORKERS)


class FileScheduling(LoadScopeScheduling):
    """Sends a file's tests to one worker, which sets up module fixtures once; slow files first."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        for path in (*FOLDERS_WITH_A_SERVICE, *FILES_THAT_BREAK_SERVERS):
            assert (config.rootpath / path).exists(), f"{path} has moved"

    def _split_scope(self, nodeid: str) -> str:
        return _scope(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Assign the next file, to a worker without a service the next one that needs none."""
        if node.gateway.id not in E2E_WORKERS:
            others = (scope for scope in self.workqueue if not scope.startswith(E2E))
            if chosen := next(others, None):
                self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)


def slow_files_first(items: list[pytest.Item]) -> None:
    """Sort long files first and short ones last, so that the workers finish at about the same time.

    After the slow files come those of `E2E`: its service takes a tenth of a processor while it only polls, so it
    does not outlast its tests. Then come files that use servers, those with most such tests first, and last the
    pure ones, which take milliseconds a test.
    """
    slow = {_scope(item.nodeid) for item in items if item.get_closest_marker("slow")}
    slow |= {*FOLDERS_WITH_A_SERVICE, BREAKING}
    served = Counter(_scope(item.nodeid) for item in items if not item.get_closest_marker("pure"))

    def rank(item: pytest.Item) -> tuple[int, int]:
        scope = _scope(item.nodeid)
        if item.nodeid.startswith(E2E):
            return 1, scope not in slow
        return (0, 0) if scope in slow else (2, -served[scope])

    breaking = {_scope(item.nodeid) for item in items if "breakable" in getattr(item, "fixturenames", ())}
    if unlisted := breaking - {BREAKING}:
        raise pytest.UsageError(f"tests/support/workers.py: add {sorted(unlisted)} to FILES_THAT_BREAK_SERVERS")
    items.sort(key=rank)


def _scope(nodeid: str) -> str:
    file = nodeid.partition("::")[0]
    if file in FILES_THAT_BREAK_SERVERS:
        return BREAKING
    return next(filter(file.startswith, FOLDERS_WITH_A_SERVICE), file)
