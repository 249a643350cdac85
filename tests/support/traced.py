"""Runs a module, and notes its calls between two SIGUSR2: `python -m tests.support.traced OUTPUT MODULE`.

Each second signal writes the calls of this project's functions as JSON.
"""

import asyncio
import json
import os
import runpy
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]


class Call(NamedTuple):
    """A call of `function` in `file`, from the file `caller`; "" from outside of the project.

    `is_open` if the file has called its own caller, directly or through others; across packages, if any file of
    its package has. Callers before the event loop do not matter.
    """

    file: str
    function: str
    caller: str
    is_open: bool


class Calls:
    """Calls of this project's functions while it is on."""

    def __init__(self, output: Path) -> None:
        self._output = output
        self._is_on = False
        self._called: set[Call] = set()

    def toggle(self, *_: object) -> None:
        self._is_on = not self._is_on
        if self._is_on:
            sys.setprofile(self._note)
            return
        sys.setprofile(None)
        written = self._output.with_suffix(f".{os.getpid()}")
        written.write_text(json.dumps(sorted(self._called)))
        written.rename(self._output)
        self._called.clear()

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and (name := _own(frame)) is not None:
            caller, *others = [*_callers(frame)] or [""]
            is_within = package(name) == package(caller)
            is_open = name in others if is_within else package(name) in map(package, others)
            self._called.add(Call(name, frame.f_code.co_qualname, caller, is_open and name != caller))


def package(file: str) -> str:
    """Return the package of a file: its first two folders."""
    return ".".join(Path(file).parts[:2])


def _own(frame: FrameType) -> str | None:
    name = frame.f_code.co_filename
    return name.removeprefix(f"{ROOT}{os.sep}") if name.startswith(OWN) else None


def _callers(frame: FrameType) -> Iterator[str]:
    """Yield the files of this project that have called the frame, the last first."""
    above = frame.f_back
    while above is not None and above.f_code.co_filename != asyncio.events.__file__:
        if (name := _own(above)) is not None:
            yield name
        above = above.f_back


OWN: Final = (f"{ROOT / 'libs'}{os.sep}", f"{ROOT / 'services'}{os.sep}")

if __name__ == "__main__":
    _, output, module, *arguments = sys.argv
    signal.signal(signal.SIGUSR2, Calls(Path(output)).toggle)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
