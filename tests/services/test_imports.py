"""Processes import no library that only some of their requests or commands need: imports take most of a start."""

import subprocess
import sys

import pytest

UNWANTED = {
    "services.gateway.__main__": {"faststream", "httpx", "segno", "typer"},
    "services.projector.__main__": {"fastapi", "httpx", "typer"},
    "services.cli.__main__": {"aiokafka", "fastapi", "httpx", "redis", "uvicorn"},
    "services.cli.commands.up": {"fastapi", "requests", "testcontainers", "uvicorn"},
}
"""Libraries that an entry point must not import, by its module."""


@pytest.mark.parametrize("module", UNWANTED)
def test_a_process_starts_without_libraries_that_few_of_its_uses_need(module: str) -> None:
    program = f"import sys, {module}; print(*sys.modules)"
    imported = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert UNWANTED[module] & set(imported.split()) == set()
