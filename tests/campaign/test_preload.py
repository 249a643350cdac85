"""The preloaded library changes the clock and the files of its process, counts that, and leaves all else alone."""

import errno
import os
import subprocess
import sys
import time
from itertools import zip_longest
from pathlib import Path
from random import Random

import pytest

from tests.campaign.power import lose_unflushed
from tests.campaign.preload import Preload, build
from tests.support.programs import C_COMPILER, Programs

MINUTES_NS = 300_000_000_000
WRITES = """
import errno, os, sys
def attempt(do):
    try: do()
    except OSError as error: print(errno.errorcode[error.errno])
    else: print("done")
inside, outside = sys.argv[1:]
fd, other = os.open(inside + "/old", os.O_RDWR), os.open(outside, os.O_RDWR | os.O_CREAT)
for of in (fd, other):
    attempt(lambda: os.write(of, b"a"))
    attempt(lambda: os.pwrite(of, b"a", 0))
    attempt(lambda: os.writev(of, [b"a"]))
    attempt(lambda: os.fsync(of))
    attempt(lambda: os.fdatasync(of))
    attempt(lambda: os.ftruncate(of, 1))
attempt(lambda: os.open(inside + "/new", os.O_RDWR | os.O_CREAT))
attempt(lambda: os.read(fd, 1))
"""
MEMORY = """
import os
print("ready", flush=True)
os.read(0, 1)
refused = 0
for _ in range(80):
    try: bytearray(1 << 20)
    except MemoryError: refused += 1
os.write(1, b"%d" % refused)
os._exit(0)
"""
FLUSHES = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.write(fd, b"flushed")
os.fsync(fd)
os.write(fd, b" and not")
other = os.open(sys.argv[2], os.O_RDWR | os.O_CREAT)
os.write(other, b"never")
"""
CLOCK = "import time; print(time.time(), time.monotonic())"
WAIT = "import threading; print(threading.Event().wait(0.01))"


@pytest.fixture
def preload(tmp_path: Path, programs: Programs) -> Preload:
    programs.path(C_COMPILER)
    if sys.platform != "linux":
        pytest.skip("preloading needs Linux")
    return build(tmp_path)


def run(preload: Preload, program: str, *arguments: object) -> list[str]:
    """Run a Python program in a process with the page `one`."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    environment = os.environ | preload.environment("one")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.split()


def files(tmp_path: Path) -> tuple[Path, Path]:
    """Return a directory with a file, and a file outside, whose path begins as the directory's."""
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "old").touch()
    return tmp_path / "inside", tmp_path / "inside-not"


@pytest.mark.parametrize("off_ns", [0, MINUTES_NS, -MINUTES_NS])
def test_only_the_wall_clock_is_off(preload: Preload, off_ns: int) -> None:
    preload.page("one").clock_off_ns = off_ns
    before, monotonic_before = time.time(), time.monotonic()
    wall, monotonic = map(float, run(preload, CLOCK))
    assert before <= wall - off_ns / 1e9 <= time.time()
    assert monotonic_before <= monotonic <= time.monotonic()
    assert bool(preload.page("one").clock_reads) is bool(off_ns)
    assert run(preload, WAIT) == ["False"], "a thread waits for as long as ever"


def test_some_large_requests_for_memory_are_refused_and_counted(preload: Preload) -> None:
    page, environment = preload.page("one"), os.environ | preload.environment("one")
    for is_short in (False, True):
        command = [sys.executable, "-c", MEMORY]
        with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            page.memory_short = process.pid if is_short else os.getpid()
            output, _ = process.communicate(b"\n", timeout=60)
        assert (int(output) > 0) is is_short
        assert int(output) <= page.memory_refused


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_writes_below_the_directory_fail_and_are_counted(preload: Preload, tmp_path: Path, error: int) -> None:
    inside, outside = files(tmp_path)
    page = preload.page("one")
    page.directory, page.error = str(inside).encode(), error
    refused = [errno.errorcode[error]]
    assert run(preload, WRITES, inside, outside) == [*6 * refused, *6 * ["done"], *refused, "done"]
    assert page.refused == 7
    page.error = 0
    assert run(preload, WRITES, inside, outside) == 14 * ["done"]


def test_writes_below_the_directory_are_slow_and_counted(preload: Preload, tmp_path: Path) -> None:
    inside, outside = files(tmp_path)
    page = preload.page("one")
    page.directory, page.delay_ms = str(inside).encode(), 20
    began = time.monotonic()
    assert run(preload, WRITES, inside, outside) == 14 * ["done"]
    assert time.monotonic() - began >= 7 * 0.02
    assert (page.delayed, page.refused) == (7, 0)


def test_a_power_cut_takes_what_was_never_flushed_and_nothing_else(preload: Preload, tmp_path: Path) -> None:
    ends = set()
    for seed in range(20):
        machine = tmp_path / f"machine {seed}"
        machine.mkdir()
        flushed, never = machine / "flushed", machine / "never"
        run(preload, FLUSHES, flushed, never)
        before = flushed.read_bytes()
        assert before == b"flushed and not"
        lost = lose_unflushed(machine, preload.flushed(), Random(seed))
        after = flushed.read_bytes()
        assert after.startswith(b"flushed")
        assert len(after) <= len(before)
        files = (before, after), (b"never", never.read_bytes())
        assert lost == sum(old != new for file in files for old, new in zip_longest(*file))
        ends.add(after)
    assert b"flushed" in ends, "all that was not flushed can be lost"
    assert len(ends) > 2, "and a part, and a part that is torn"
