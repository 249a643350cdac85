"""Java's ahead-of-time cache of Kafka's classes, loaded and linked: a broker starts with a third of the CPU time.

It is kept beside the jars. Java 25 writes it at the end of a trial run, once per machine and Java runtime.
"""

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Final

from filelock import FileLock

from libs.local_stack.child_process import Reaper
from libs.local_stack.startup_report import Report

OLDEST: Final = 25
"""Java version that first writes the cache of a run by itself."""
STARTED: Final = b"Kafka Server started"
DEADLINE_S: Final = 180.0
POLL_S: Final = 0.05

Broker = Callable[[Path], list[str]]
"""Returns the command line of a broker with new storage in a directory."""


def options(
    java: Path, class_path: Sequence[Path], home: Path, broker: Broker, reaper: Reaper, report: Report, stop: Event
) -> list[str]:
    """Return Java's options for using the cache in `home`, which is created first if there is none yet.

    None if this Java has no such cache. Of concurrent callers one creates it; setting `stop` ends that.
    """
    if not _can_create(java):
        return []
    cache = home / f"{_fingerprint(java, class_path)}.aot"
    if not cache.exists():
        with FileLock(home / "lock"):
            if not cache.exists():
                report.line("Preparing fast starts of Kafka (once)")
                _create(cache, broker, reaper, stop)
    return [f"-XX:AOTCache={cache}"] if cache.exists() and cache.stat().st_size else []


def _can_create(java: Path) -> bool:
    try:
        release = (_java_home(java) / "release").read_text()
    except OSError:
        return False
    version = re.search(r'JAVA_VERSION="(\d+)', release)
    return version is not None and int(version[1]) >= OLDEST


def _fingerprint(java: Path, class_path: Sequence[Path]) -> str:
    """Identify the files by which Java checks that the cache is of this runtime and these jars."""
    files = [(file, file.stat()) for file in (_java_home(java) / "lib" / "modules", *class_path)]
    return sha256(
        repr([(str(file.name), stat.st_size, stat.st_mtime_ns) for file, stat in files]).encode()
    ).hexdigest()[:16]


def _java_home(java: Path) -> Path:
    return java.resolve().parents[1]


def _create(cache: Path, broker: Broker, reaper: Reaper, stop: Event) -> None:
    """Run a broker until it has started, and let Java write the cache when it ends.

    Replaces the caches of former runtimes. An empty file notes that this Java writes none.
    """
    written = cache.with_suffix(".tmp")
    with tempfile.TemporaryDirectory(prefix="tally-kafka-") as directory:
        program, *arguments = broker(Path(directory))
        log = Path(directory) / "output"
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603
                [program, f"-XX:AOTCacheOutput={written}", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        reaper.watch(process.pid)
        try:
            if not _ended(process, log, stop):
                return
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            reaper.forget(process.pid)
    for former in cache.parent.glob("*.aot"):
        former.unlink()
    if written.exists():
        written.replace(cache)
    else:
        cache.touch()


def _ended(process: "subprocess.Popen[bytes]", log: Path, stop: Event) -> bool:
    """Stop the broker once it has started; return whether it ended by itself before the deadline and `stop`."""
    deadline, is_stopping = time.monotonic() + DEADLINE_S, False
    while process.poll() is None:
        if stop.wait(POLL_S) or time.monotonic() > deadline:
            return False
        if not is_stopping and STARTED in log.read_bytes():
            process.terminate()
            is_stopping = True
    return True
