"""Runs the benchmarks: `python -m tests.benchmarks [--only PATH...] [--quick | --long] [--output FOLDER]
[--list]`.

Each runs in a process of its own, so that a failure costs one section and what one leaves in memory slows no
other. Whole results replace those of the same paths beside this file: `results.json`, and `README.md` and
`results.html` rendered from it. With --quick they are printed, and written to --output only.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from tests.benchmarks import machine, plot, readme, results
from tests.benchmarks.alone import show
from tests.benchmarks.machine import Machine
from tests.benchmarks.measurement import Size
from tests.benchmarks.paths import BY_NAME, PATHS
from tests.benchmarks.paths import Path as BenchmarkPath
from tests.benchmarks.results import Section

TIMEOUT_S = {Size.QUICK: 600, Size.FULL: 1_200, Size.LONG: 7_200}
LAST_LINES = 3


def measured(path: BenchmarkPath, size: Size, here: Machine) -> Section:
    """Run one benchmark in a process of its own."""
    begun, at = time.monotonic(), datetime.now(UTC)
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [sys.executable, "-m", f"tests.benchmarks.{path.module}", "--size", size, "--json", file.name]
        failure = _failure(command, TIMEOUT_S[size])
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
    with tempfile.TemporaryFile("w+") as errors, subprocess.Popen(command, stderr=errors) as started:
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
    return " ".join(said.strip().splitlines()[-LAST_LINES:]) or f"exit code {code}"


def write(fresh: Sequence[Section], folder: Path) -> None:
    """Write the results of these and, of other paths, of the runs before."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = results.load(folder).updated(fresh, [path.name for path in PATHS])
    results.save(whole, folder)
    (folder / results.README).write_text(readme.render(whole))
    (folder / results.PAGE).write_text(plot.page(whole))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description="Runs the benchmarks.")
    parser.add_argument("--only", nargs="+", choices=list(BY_NAME), help="paths to measure; default: all")
    parser.add_argument("--output", type=Path, help="folder for the results; default: beside the benchmarks")
    parser.add_argument("--list", action="store_true", help="list the paths and exit")
    parser.add_argument("--render", action="store_true", help="render the kept results again and exit")
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--quick", action="store_true", help="small sizes, to try the benchmarks out")
    sizes.add_argument("--long", action="store_true", help="with a replay of 10 million votes")
    given = parser.parse_args()
    if given.list:
        for path in PATHS:
            print(f"{path.name:10} {path.title}")
        return
    folder = given.output or results.HERE
    if given.render:
        write([], folder)
        return
    size = Size.QUICK if given.quick else Size.LONG if given.long else Size.FULL
    here = machine.describe()  # before the first: what these do and write is neither load by others nor a change
    fresh = []
    for name in given.only or BY_NAME:
        section = measured(BY_NAME[name], size, here)
        fresh.append(section)
        show(f"{section.title} ({section.took_s:.0f} s)", list(section.measurements))
        if section.failure:
            print(f"FAILED: {section.failure}")
        print(flush=True)
        if given.output or size is not Size.QUICK:
            write([section], folder)
    sys.exit(1 if any(section.failure for section in fresh) else 0)


if __name__ == "__main__":
    main()
