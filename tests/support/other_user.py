"""Runs a function as another user of the machine."""

import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import pytest

T = TypeVar("T")
NOBODY: Final = 65534
WAIT_S: Final = 60.0
as_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to run as another user of the machine")


@pytest.fixture
def open_path() -> Iterator[Path]:
    """Return an empty directory that every user may enter; the parents of `tmp_path` are closed to others."""
    with tempfile.TemporaryDirectory(prefix="tally-open-") as directory:
        os.chmod(directory, 0o755)
        yield Path(directory)


def as_nobody(function: Callable[[], T]) -> T:
    """Return the result of `function` in a process of the user with uid 65534, a fork of this one.

    Raises what it raised. Call it from a thread without an event loop.
    """
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    child = fork.Process(target=_run, args=(function, sender), daemon=True)
    child.start()
    sender.close()
    try:
        assert receiver.poll(WAIT_S), "the other user's process does not end"
        result: Any = receiver.recv()
    finally:
        child.join()
    if isinstance(result, BaseException):
        raise result
    return cast(T, result)


def _run(function: Callable[[], object], result: Connection) -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    try:
        result.send(function())
    except Exception as error:
        result.send(error)
