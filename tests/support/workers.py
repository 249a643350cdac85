"""Distribution of a run over workers: how many, and which tests stay together."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

MOST_WORKERS = 4
"""Each has services of its own, and their processes need the processors, too."""
FOLDERS_WITH_A_SERVICE = ("tests/browser/", "tests/services/cli/commands/replay/")
"""Their tests share a service of their own, so one worker runs them all."""


def number_of_workers(config: pytest.Config) -> int:
    """None for chosen files, since starting workers takes longer than it saves."""
    if chosen := os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return int(chosen)
    if all(Path(str(argument).partition("::")[0]).suffix for argument in config.args):
        return 0
    return min(os.cpu_count() or 1, MOST_WORKERS)


class FileScheduling(LoadScopeScheduling):
    """A file's tests go to one worker, which starts their module's fixtures once; slow files first."""

    def _split_scope(self, nodeid: str) -> str:
        return _scope(nodeid)


def slow_files_first(items: list[pytest.Item]) -> None:
    """The workers would otherwise end far apart."""
    slow = {_scope(item.nodeid) for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: _scope(item.nodeid) not in slow)


def _scope(nodeid: str) -> str:
    return next(filter(nodeid.startswith, FOLDERS_WITH_A_SERVICE), nodeid.partition("::")[0])
