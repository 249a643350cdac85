"""Description of the machine that a benchmark ran on."""

import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
WRITTEN = "README.md", "deploy/CAPACITY.md", "tests/benchmarks/README.md", "tests/benchmarks/results.json"
"""Files that a run writes."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Hardware, software, and the load by others before the run: the one-minute average."""

    processor: str
    cores: int
    memory_gb: int
    system: str
    python: str
    commit: str
    load_before: float

    def __str__(self) -> str:
        return (
            f"{self.cores} × {self.processor}, {self.memory_gb} GB, {self.system}, Python {self.python}, "
            f"load average before {self.load_before:.1f}, commit {self.commit}"
        )

    @property
    def was_busy(self) -> bool:
        return self.load_before > self.cores / 2


def describe() -> Machine:
    return Machine(
        processor=_processor(),
        cores=os.cpu_count() or 1,
        memory_gb=round(psutil.virtual_memory().total / 1e9),
        system=f"{platform.system()} {platform.release().split('-')[0]}",
        python=platform.python_version(),
        commit=_commit(),
        load_before=round(os.getloadavg()[0], 1),
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _commit() -> str:
    """Return the commit, with "-dirty" where files are changed other than those that a run writes."""
    commit = _git("rev-parse", "--short=8", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", *(f":!{name}" for name in WRITTEN))
    return (f"{commit}-dirty" if changed else commit) or "unknown"


def _git(*arguments: str) -> str:
    said = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False, cwd=ROOT)
    return said.stdout.strip()
