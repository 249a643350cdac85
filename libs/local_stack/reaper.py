"""Script that stops a parent's remaining child processes after the parent has ended.

The parent writes a line per process that it starts (`+<pid> <start time>`) or has stopped (`-<pid>`) to this
script's standard input. When the input ends or the parent is gone, even by SIGKILL, the script deletes the files
named on its command line, which announce the stack, and stops the processes still running, the latest first:
SIGTERM to the process group, then SIGKILL after `GRACE_S`.

It is run as a script to import as little as possible.
"""

import os
import select
import signal
import sys
import time
from contextlib import suppress

import psutil

GRACE_S = 6.0
START_TIME_TOLERANCE_S = 0.5


def start_time(pid: int) -> float | None:
    """Return a process's start time, which distinguishes it from a later one with the same pid; None if not
    running.
    """
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.Error:
        return None


def is_same(pid: int, started: float) -> bool:
    now = start_time(pid)
    return now is not None and abs(now - started) < START_TIME_TOLERANCE_S


def stop_group(pid: int, started: float, grace_s: float = GRACE_S) -> None:
    """Stop a process and its group by SIGTERM, then SIGKILL, unless the pid now belongs to another process."""
    for signal_number, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, grace_s)):
        if not is_same(pid, started):
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal_number)
        deadline = time.monotonic() + patience_s
        while is_same(pid, started) and time.monotonic() < deadline:
            time.sleep(0.02)


def main() -> None:
    parent = int(sys.argv[1])
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    running: dict[int, float] = {}
    pending = b""
    while os.getppid() == parent:
        readable, _, _ = select.select([0], [], [], 0.5)
        if not readable:
            continue
        chunk = os.read(0, 4096)
        if not chunk:
            break
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"+"):
                pid_text, started_text = line[1:].split()
                running[int(pid_text)] = float(started_text)
            else:
                running.pop(int(line[1:]), None)
    for announcement in sys.argv[2:]:
        with suppress(FileNotFoundError):
            os.unlink(announcement)
    for pid, started in reversed(running.items()):
        stop_group(pid, started)


if __name__ == "__main__":
    main()
