"""Programs that tests need and a machine may lack: what is missing is left out, and installed by one command.

A test asks the fixture `programs` for a row of the table: `programs.path(NGINX)`. Where the machine lacks it, the
test is skipped, and the end of the run's output counts what was left out and names the command. With
TALLY_TESTS_COMPLETE=1, as in `.ci/run`, leaving out fails the run. What the network does not give is not demanded
(`not_to_be_had`), but listed.

`python -m tests.support.programs` installs all that are missing. Tests install nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import pytest

HEADING: Final = "left out"
MISSING: Final = "is missing."
INSTALL: Final = "uv run python -m tests.support.programs"
"""Installs all programs that are missing."""
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
        *("chromium-headless-shell", "chromium", "chromium-browser"),
        *("google-chrome", "google-chrome-stable", "microsoft-edge"),
        *map(_of_mac, ("Google Chrome", "Chromium", "Microsoft Edge")),
    ),
    package="chromium-headless-shell",
    remedy="uv run playwright install --with-deps chromium",
    installer=(sys.executable, "-m", "playwright", "install", "chromium"),
)
C_COMPILER: Final = Program("a C compiler", ("cc", "gcc", "clang"), "build-essential", "xcode-select --install")
CLAMD: Final = Program("clamd", ("clamd",), "clamav-daemon", "brew install clamav")
CURL: Final = Program("curl", ("curl",), "curl", "brew install curl")
FAKETIME: Final = Program("faketime", ("faketime",), "faketime", "brew install libfaketime")
HAPROXY: Final = Program("HAProxy", ("haproxy",), "haproxy", "brew install haproxy", check=("-v",))
NGINX: Final = Program("nginx", ("nginx",), "nginx-light", "brew install nginx", check=("-v",))
NODE: Final = Program("Node.js", ("node", "nodejs"), "nodejs", "brew install node")
NPM: Final = Program("npm", ("npm",), "npm", "brew install node")
PROMTOOL: Final = Program("promtool", ("promtool",), "prometheus", "brew install prometheus")
ALL: Final = (CHROMIUM, C_COMPILER, CLAMD, CURL, FAKETIME, HAPROXY, NGINX, NODE, NPM, PROMTOOL)


class Programs:
    """Finds each program once."""

    def __init__(self) -> None:
        self._paths: dict[Program, str | None] = {}

    def path(self, program: Program) -> str:
        """Return the path of a program; skip the test if the machine lacks it."""
        if program not in self._paths:
            self._paths[program] = find(program)
        if path := self._paths[program]:
            return path
        pytest.skip(f"{program.title} {MISSING}")


def find(program: Program) -> str | None:
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


def not_to_be_had(what: str) -> NoReturn:
    """End the test without a result: a download that it needs failed."""
    pytest.xfail(f"{what} could not be had here.")


def list_left_out(reporter: pytest.TerminalReporter) -> None:
    """Write how many tests were left out for which reason, and how to run them."""
    for report in reporter.getreports("xfailed"):
        reporter.line(f"NOT RUN: {report.nodeid}: {report.wasxfail}")
    skipped = Counter(_reason(report) for report in reporter.getreports("skipped"))
    if not skipped:
        return
    reporter.section(HEADING)
    for reason, number in skipped.most_common():
        reporter.line(f"LEFT OUT: {number} {'test' if number == 1 else 'tests'}. {reason}")
    if any(reason.endswith(MISSING) for reason in skipped):
        reporter.line(f"This installs all programs that are missing: {INSTALL}")
    if must_be_complete():
        reporter.line("FAILED: TALLY_TESTS_COMPLETE=1 demands all tests.")


def _reason(report: pytest.TestReport) -> str:
    """Return why a test was skipped; xdist sends the same triple of file, line and reason."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")


def install(program: Program) -> bool:
    """Install a program with the first command that works here; return whether it runs now."""
    for command in _installers(program):
        print(f"{program.title} is missing. Installing it: {' '.join(command)}", file=sys.stderr, flush=True)
        if _succeeds(command, INSTALL_TIMEOUT_S) and find(program):
            return True
        print(f"{program.title} could not be installed in this way.", file=sys.stderr, flush=True)
    return False


def _installers(program: Program) -> list[Sequence[str]]:
    found: list[Sequence[str]] = []
    if program.package and shutil.which("apt-get"):
        prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
        options = ("-qy", "-o", "DPkg::Lock::Timeout=300", "--no-install-recommends")
        found += [[*prefix, "apt-get", "install", *options, program.package]]
    return [*found, program.installer] if program.installer else found


def main(programs: Sequence[Program] = ALL) -> int:
    missing = [program for program in programs if not find(program) and not install(program)]
    for program in missing:
        print(f"{program.title} is missing: {program.remedy}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
