"""Runs a module, and notes its calls between two SIGUSR2: `python -m tests.support.traced OUTPUT MODULE`.

Each second signal writes the files of this project whose functions were called, with their names, as JSON.
"""

import json
import os
import runpy
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]


class Calls:
    """Calls of this project's functions while it is on."""

    def __init__(self, output: Path) -> None:
        self._output = output
        self._is_on = False
        self._called: set[tuple[str, str]] = set()

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
        if event == "call" and frame.f_code.co_filename.startswith(OWN):
            name = frame.f_code.co_filename.removeprefix(f"{ROOT}{os.sep}")
            self._called.add((name, frame.f_code.co_qualname))


OWN: Final = (f"{ROOT / 'libs'}{os.sep}", f"{ROOT / 'services'}{os.sep}")

if __name__ == "__main__":
    _, output, module, *arguments = sys.argv
    signal.signal(signal.SIGUSR2, Calls(Path(output)).toggle)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
