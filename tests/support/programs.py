"""Programs that tests need and a machine may lack: found, else installed where that is possible, else left out.

A test asks the fixture `programs` for a row of the table: `programs.path(NGINX)`. Where the program cannot be had,
the test is skipped, and the end of the run's output counts what was left out and says how to get it. With
TALLY_TESTS_COMPLETE=1, as in `.ci/run`, leaving out fails the run. TALLY_TESTS_INSTALL=0 installs nothing.

`python -m tests.support.programs` installs all of them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from filelock import FileLock

HEADING: Final = "left out"
SYSTEM_FOLDERS: Final = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/opt/homebrew/bin", "/opt/homebrew/sbin")
"""Folders of servers, which are not on the PATH of every user."""
INSTALL_TIMEOUT_S: Final = 900
CHECK_TIMEOUT_S: Final = 60
BROWSER_OF_PLAYWRIGHT: Final = (
    "from playwright.sync_api import sync_playwright\n"
    "with sync_playwright() as playwright: print(playwright.chromium.executable_path)"
)


@dataclass(frozen=True)
class Program:
    """A program and how it gets onto a machine."""

    title: str
    names: tuple[str, ...]
    """Commands, or absolute paths, of which any will do."""
    package: str | None
    """Debian's package."""
    remedy: str
    """A command that installs it elsewhere."""
    installer: tuple[str, ...] = ()
    """A command that installs it for the current user."""
    check: tuple[str, ...] = ("--version",)
    """Arguments with which it ends at once, with exit code 0."""


def _of_mac(name: str) -> str:
    return f"/Applications/{name}.app/Contents/MacOS/{name}"


CHROMIUM: Final = Program(
    "Chromium, Chrome or Edge",
    (
        *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge"),
        *map(_of_mac, ("Google Chrome", "Chromium", "Microsoft Edge")),
    ),
    package="chromium",
    remedy="uv run playwright install --with-deps chromium",
    installer=(sys.executable, "-m", "playwright", "install", "chromium"),
)
C_COMPILER: Final = Program("a C compiler", ("cc", "gcc", "clang"), "build-essential", "xcode-select --install")
CLAMD: Final = Program("clamd", ("clamd",), "clamav-daemon", "brew install clamav")
CURL: Final = Program("curl", ("curl",), "curl", "brew install curl")
FAKETIME: Final = Program("faketime", ("faketime",), "faketime", "brew install libfaketime")
HAPROXY: Final = Program("HAProxy", ("haproxy",), "haproxy", "brew install haproxy", check=("-v",))
NGINX: Final = Program("nginx", ("nginx",), "nginx-light", "brew install nginx", check=("-v",))
PROMTOOL: Final = Program("promtool", ("promtool",), "prometheus", "brew install prometheus")
ALL: Final = (CHROMIUM, C_COMPILER, CLAMD, CURL, FAKETIME, HAPROXY, NGINX, PROMTOOL)


@dataclass
class Programs:
    """Finds programs, and installs those that are missing."""

    log: Path
    """A file that gets a line for each installation."""
    config: pytest.Config | None = None
    may_use_sudo: bool = False
    _paths: dict[Program, str | None] = field(default_factory=dict)

    def path(self, program: Program) -> str:
        """Return the path of a program; skip the test if it cannot be had."""
        if path := self.get(program):
            return path
        package = f"apt-get install {program.package}, or " if program.package else ""
        pytest.skip(f"{program.title} is missing: {package}{program.remedy}")

    def get(self, program: Program) -> str | None:
        """Return the path of a program, or None if it cannot be had."""
        if program not in self._paths:
            self._paths[program] = _find(program) or self._install(program)
        return self._paths[program]

    def _install(self, program: Program) -> str | None:
        if os.environ.get("TALLY_TESTS_INSTALL") == "0":
            return None
        with FileLock(self.log.with_suffix(".lock")):
            for command in self._installers(program):
                # another worker may have installed it meanwhile
                if path := _find(program):
                    return path
                self._say(f"Tests need {program.title}, which is missing. Installing it: {' '.join(command)}")
                if not _succeeds(command, INSTALL_TIMEOUT_S):
                    self._say(f"{program.title} could not be installed in this way.")
        return _find(program)

    def _installers(self, program: Program) -> list[Sequence[str]]:
        found: list[Sequence[str]] = []
        prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
        if program.package and shutil.which("apt-get") and (not prefix or self.may_use_sudo):
            options = ("-qy", "-o", "DPkg::Lock::Timeout=300", "--no-install-recommends")
            found += [[*prefix, "apt-get", "install", *options, program.package]]
        return [*found, program.installer] if program.installer else found

    def _say(self, line: str) -> None:
        """Write a line to the terminal at once. The end of the run repeats it."""
        with self.log.open("a") as log:
            log.write(f"{line}\n")
        capture = self.config.pluginmanager.getplugin("capturemanager") if self.config else None
        if capture is None:
            print(line, file=sys.stderr, flush=True)
            return
        with capture.global_and_fixture_disabled():
            print(f"\n{line}", file=sys.stderr, flush=True)


def _find(program: Program) -> str | None:
    """Return the path of a program that runs here: Ubuntu's `chromium-browser` only asks for a snap."""
    places = os.pathsep.join((os.environ.get("PATH", os.defpath), *SYSTEM_FOLDERS))
    found = [path for name in program.names if (path := shutil.which(name, path=places))]
    if program is CHROMIUM:
        # in a process of its own, as it cannot run inside an event loop
        command = (sys.executable, "-c", BROWSER_OF_PLAYWRIGHT)
        path = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        found += [path] if Path(path).is_file() else []
    return next((path for path in found if _succeeds((path, *program.check), CHECK_TIMEOUT_S)), None)


def _succeeds(command: Sequence[str], timeout_s: float) -> bool:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def must_be_complete() -> bool:
    return os.environ.get("TALLY_TESTS_COMPLETE") == "1"


def list_left_out(reporter: pytest.TerminalReporter, log: Path) -> None:
    """Write what was installed, and how many tests were left out for which reason."""
    skipped = Counter(_reason(report) for report in reporter.getreports("skipped"))
    installed = log.read_text().splitlines() if log.exists() else []
    if not skipped and not installed:
        return
    reporter.section(HEADING)
    for line in installed:
        reporter.line(line)
    for reason, number in skipped.most_common():
        reporter.line(f"LEFT OUT: {number} {'test' if number == 1 else 'tests'}. {reason}")
    if skipped and must_be_complete():
        reporter.line("FAILED: TALLY_TESTS_COMPLETE=1 demands all tests.")


def _reason(report: pytest.TestReport) -> str:
    """Return why a test was skipped; xdist sends the same triple of file, line and reason."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        programs = Programs(Path(directory) / "installed", may_use_sudo=True)
        missing = [program for program in ALL if programs.get(program) is None]
    for program in missing:
        print(f"{program.title} is missing: {program.remedy}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
