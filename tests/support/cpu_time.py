"""Counts the CPU time of a run's processes, and with `--cpu-table` by folder and kind of process (Linux).

A process's time counts when its parent has waited for it. Only a process that outlives its parent is missed.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.support.servers.shared_servers import ended_cpu_s, used_cpu_s

SAMPLE_S: Final = 0.25
OUTPUT: Final = "cpu_table"
"""The name of a worker's part of the table in what it sends at its end."""
TICKS: Final = os.sysconf("SC_CLK_TCK")
COLUMNS: Final = ("tests", "servers", "services", "browsers", "commands", "waits")
TESTS, SERVERS, SERVICES, BROWSERS, COMMANDS, WAITS = COLUMNS
"""Kinds of processes; `tests` are the tests' own processes, `waits` the time in which these used no CPU."""
KINDS: Final = {
    "java": SERVERS,
    "valkey": SERVERS,
    "chrom": BROWSERS,
    "playwright": BROWSERS,
    "services.gateway": SERVICES,
    "services.projector": SERVICES,
    "services.cli": COMMANDS,
}
"""Kinds by words of the command line; another process is of its parent's kind, else a command."""
OF_THE_RUN: Final = "shared_servers.py"


class Usage(NamedTuple):
    """A running process: its kind, its own CPU time, and that of its ended children."""

    kind: str
    own_s: float
    ended_s: float


class Sampler:
    """Adds the CPU time of this process and of those below it to the folder of the running test."""

    def __init__(self) -> None:
        self._seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._folder = "collection"
        self._lock = threading.Lock()
        self._live: dict[int, Usage] = {}
        self._total, self._own, self._clock = ended_cpu_s(), 0.0, time.monotonic() - time.process_time()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.wait(SAMPLE_S):
            self._sample()

    def enter(self, folder: str) -> None:
        if folder != self._folder:
            self._sample()
            self._folder = folder

    def stop(self) -> defaultdict[tuple[str, str], float]:
        """Return the seconds by folder and column."""
        self._end.set()
        self._thread.join()
        self._sample()
        return self._seconds

    def _sample(self) -> None:
        with self._lock:
            live = _processes_below(os.getpid())
            own, clock, ended = time.process_time(), time.monotonic(), ended_cpu_s()
            self._add(TESTS, own - self._own)
            self._add(WAITS, clock - self._clock - (own - self._own))
            seen = 0.0
            for pid, usage in live.items():
                added = usage.own_s - (self._live[pid].own_s if pid in self._live else 0.0)
                self._add(usage.kind, added)
                seen += added
            # the last moments of those that ended, and those that were never seen
            total = ended + sum(usage.own_s + usage.ended_s for usage in live.values())
            gone = [usage.kind for pid, usage in self._live.items() if pid not in live]
            self._add(gone[0] if gone else COMMANDS, max(total - self._total - seen, 0.0))
            self._live, self._total, self._own, self._clock = live, total, own, clock

    def _add(self, column: str, seconds: float) -> None:
        self._seconds[self._folder, column] += seconds


def _folder(nodeid: str) -> str:
    parts = Path(nodeid.partition("::")[0]).parent.parts
    return "/".join(parts[1 : 3 if parts[1:2] in {("libs",), ("services",)} else 2]) or "."


def _processes_below(root: int) -> dict[int, Usage]:
    """Return by pid the processes below `root`, but for the run's servers."""
    children: dict[int, list[tuple[int, float, float]]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (text := _read(f"/proc/{entry}/stat")):
            words = text.rpartition(")")[2].split()
            user, system, ended_user, ended_system = (int(word) / TICKS for word in words[11:15])
            children.setdefault(int(words[1]), []).append((int(entry), user + system, ended_user + ended_system))
    found: dict[int, Usage] = {}
    pending = [(process, COMMANDS) for process in children.get(root, ())]
    while pending:
        (pid, own_s, ended_s), kind = pending.pop()
        command = _read(f"/proc/{pid}/cmdline")
        if OF_THE_RUN not in command:
            kind = next((kind for word, kind in KINDS.items() if word in command), kind)
            found[pid] = Usage(kind, own_s, ended_s)
            pending += [(child, kind) for child in children.get(pid, ())]
    return found


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


class CpuTime:
    """Plugin that writes the CPU time of a run, and the table of all its workers."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._tests: Counter[str] = Counter()
        wanted, starts_workers = config.getoption("--cpu-table"), config.getoption("tx")
        self._sampler = Sampler() if wanted and not starts_workers else None

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self._sampler:
            self._sampler.enter(_folder(nodeid))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._tests[_folder(report.nodeid)] += report.when == "call"

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        if not self._sampler:
            return
        self._seconds = self._sampler.stop()
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput[OUTPUT] = [(*key, seconds) for key, seconds in self._seconds.items()]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        for folder, column, seconds in getattr(node, "workeroutput", {}).get(OUTPUT, ()):
            self._seconds[folder, column] += seconds

    def write(self, servers_s: float) -> None:
        """Write the table if it is wanted, and the sum, in which the run's servers used `servers_s`."""
        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        if reporter is None:
            return
        if self._config.getoption("--cpu-table"):
            reporter.section("CPU time in seconds")
            for line in self._table(servers_s):
                reporter.line(line)
        reporter.line(f"CPU time of all processes: {used_cpu_s() + servers_s:.0f} s")

    def _table(self, servers_s: float) -> list[str]:
        seconds = self._seconds | {("the run's servers", SERVERS): servers_s}
        if not self._sampler:
            seconds["the controller", TESTS] = time.process_time()
        rows: list[tuple[str, ...]] = [("folder", "number", *COLUMNS, "CPU"), ("---",) * 9]
        for folder in sorted({folder for folder, _ in seconds}):
            rows += [_row(folder, self._tests[folder], [seconds.get((folder, column), 0.0) for column in COLUMNS])]
        sums = [sum(part for (_, name), part in seconds.items() if name == column) for column in COLUMNS]
        rows += [_row("all", self._tests.total(), sums)]
        return [f"| {' | '.join(row)} |" for row in rows]


def _row(folder: str, tests: int, seconds: Sequence[float]) -> tuple[str, ...]:
    *cpu, _ = seconds
    return folder, str(tests), *(f"{each:.0f}" for each in (*seconds, sum(cpu)))
