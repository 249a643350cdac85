"""Runs the benchmarks: `python -m tests.benchmarks [--only PATH...] [--quick] [--long] [--resume] [--render]`.

Each path runs in a process of its own, so that a failure costs one section and what one leaves in memory slows no
other. Its results are written as soon as it ends: `results.json` beside this file, and the documents rendered from
it. With --quick they are printed, and written to --output only.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from tests.benchmarks import documents, machine, results
from tests.benchmarks.alone import show
from tests.benchmarks.machine import Machine
from tests.benchmarks.measurement import Size
from tests.benchmarks.paths import BY_NAME, PATHS
from tests.benchmarks.paths import Path as BenchmarkPath
from tests.benchmarks.results import Section

TIMEOUT_S, LONG_TIMEOUT_S = 600, 7_200
PLAIN = {"TYPER_STANDARD_TRACEBACK": "1"}
"""Environment in which a traceback is one line per step, without boxes."""


def measured(path: BenchmarkPath, size: Size, here: Machine) -> Section:
    """Run one benchmark in a process of its own."""
    begun, at = time.monotonic(), datetime.now(UTC)
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [sys.executable, "-m", f"tests.benchmarks.{path.module}", "--size", size, "--json", file.name]
        failure = _failure(command, LONG_TIMEOUT_S if path.is_long else TIMEOUT_S)
        text = Path(file.name).read_bytes()
    measurements = []
    try:
        measurements = results.parse_measurements(text) if text else []
    except ValidationError as error:
        failure = failure or f"its results cannot be read: {error.errors()[0]['msg']}"
    return Section(
        path=path.name,
        title=path.title,
        size=size,
        measured_at=f"{at:%Y-%m-%d %H:%M} UTC",
        took_s=round(time.monotonic() - begun, 1),
        machine=here,
        measurements=measurements,
        failure=failure,
    )


def _failure(command: list[str], timeout_s: int) -> str:
    """Return the last words of a command that failed, else nothing."""
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stderr=errors, env=os.environ | PLAIN) as started,
    ):
        try:
            code = started.wait(timeout_s)
        except subprocess.TimeoutExpired:
            started.terminate()
            return f"not done after {timeout_s} s"
        errors.seek(0)
        said = errors.read()
    if code == 0:
        return ""
    print(said, file=sys.stderr)
    return reason_of(said) or f"exit code {code}"


def reason_of(said: str) -> str:
    """Return the first line of the last error in a command's output, else its last line."""
    lines = said.strip().splitlines()
    errors = [line for line in lines if re.match(r"[A-Za-z_][\w.]*: ", line)]
    return (errors or lines or [""])[-1]


def write(fresh: Sequence[Section], folder: Path) -> None:
    """Write the results of these and, of other paths, of the runs before."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = results.load(folder).updated(fresh, [path.name for path in PATHS])
    results.save(whole, folder)
    for file, text in documents.render(whole, folder).items():
        file.write_text(text)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description="Runs the benchmarks.")
    parser.add_argument(
        "--only", nargs="+", choices=list(BY_NAME), help="paths to measure; default: all short ones"
    )
    parser.add_argument("--long", action="store_true", help="measure the long paths, too")
    parser.add_argument("--quick", action="store_true", help="small sizes, to try the benchmarks out")
    parser.add_argument("--resume", action="store_true", help="leave out what this commit has measured already")
    parser.add_argument("--output", type=Path, help="folder for the results; default: beside the benchmarks")
    parser.add_argument("--list", action="store_true", help="list the paths and exit")
    parser.add_argument("--render", action="store_true", help="render the kept results again and exit")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    if given.list:
        for path in PATHS:
            print(f"{path.name:10} {path.title}{' (long)' if path.is_long else ''}")
        return
    folder = given.output or results.HERE
    if given.render:
        write([], folder)
        return
    size = Size.QUICK if given.quick else Size.FULL
    here = machine.describe()  # before the first: what these do is no load by others
    names = given.only or [path.name for path in PATHS if given.long or not path.is_long]
    if given.resume:
        kept = results.load(folder)
        names = [name for name in names if not kept.is_measured(name, size, here.commit)]
    is_written = bool(given.output) or size is Size.FULL
    failures = [name for name in names if not run(BY_NAME[name], size, here, folder if is_written else None)]
    if failures:
        sys.exit(f"failed: {', '.join(failures)}")


def run(path: BenchmarkPath, size: Size, here: Machine, folder: Path | None) -> bool:
    """Measure, print and write one path. Return whether it did not fail."""
    section = measured(path, size, here)
    show(f"{section.title} ({section.took_s:.0f} s)", list(section.measurements))
    if section.failure:
        print(f"FAILED: {section.failure}")
    print(flush=True)
    if folder:
        write([section], folder)
    return not section.failure


if __name__ == "__main__":
    main()
