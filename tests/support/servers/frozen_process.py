"""Stops a process for a while, as if it were frozen."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stop a process by SIGSTOP, from here on: it takes connections and bytes, and answers nothing."""
    process = psutil.Process(pid)
    os.kill(pid, signal.SIGSTOP)
    while process.status() != psutil.STATUS_STOPPED:
        os.sched_yield()  # one of its threads has to run before the signal takes effect
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
