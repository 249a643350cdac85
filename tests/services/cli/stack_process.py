"""A command that runs a stack, as a process."""

import asyncio
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.support.eventually import eventually

ROOT: Final = Path(__file__).parents[3]


class StackProcess:
    """The process, and what it wrote to its data directory."""

    def __init__(self, data_dir: Path, command: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        self.data_dir = data_dir
        self.process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    async def stack(self) -> dict[str, Any]:
        """Return the stack's description once it is ready."""

        def ready() -> dict[str, Any] | None:
            if self.process.poll() is not None:
                raise RuntimeError(self.process.communicate())
            file = self.data_dir / "stack.json"
            return json.loads(file.read_text()) if file.exists() else None

        return await eventually(ready) or {}

    async def ended(self) -> tuple[int, str, str]:
        """Return exit code, output and errors."""
        output, errors = await asyncio.to_thread(self.process.communicate)
        return self.process.returncode, output, errors

    def kill(self) -> None:
        self.process.kill()
        print(*self.process.communicate())
