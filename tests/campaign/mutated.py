"""Runs a campaign against a copy of the sources with a mutation of the simulation: a guard that is missing."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Final

from tests.simulation.mutate import LUA
from tests.simulation.mutations import MUTATIONS

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = ("libs", "services", "tests")


def run_mutated(name: str, arguments: Sequence[str]) -> int:
    """Run `python -m tests.campaign` with `arguments` in an altered copy; returns its exit code."""
    with tempfile.TemporaryDirectory(prefix="mutated-") as directory:
        copy = Path(directory)
        for folder in FOLDERS:
            copytree(ROOT / folder, copy / folder, ignore=ignore_patterns("__pycache__"))
        mutation = MUTATIONS[name]
        module = copy / f"{mutation.where.replace('.', '/')}.py"
        files = list((copy / "libs/views").rglob("*.lua")) if mutation.where == LUA else [module]
        for old, new in mutation.changes:
            [file] = [each for each in files if each.read_text().count(old) == 1]
            file.write_text(file.read_text().replace(old, new))
        environment = os.environ | {"PYTHONPATH": str(copy)}
        command = [sys.executable, "-m", "tests.campaign", *arguments]
        return subprocess.run(command, cwd=copy, env=environment, check=False).returncode
