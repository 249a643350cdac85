"""Runs a program whose log is set up as that of every process."""

import json
import subprocess
import sys
from typing import Any

SETUP = """
import logging, warnings
from libs.telemetry.environment_settings import TelemetrySettings
from libs.telemetry.logs import configure_logs
configure_logs(TelemetrySettings())
"""


def logged(program: str, **settings: str) -> tuple[list[dict[str, Any]], int]:
    """Return the lines of its log, and the exit code."""
    environment = {"PYTHONPATH": ":".join(path for path in sys.path if path), **settings}
    command = [sys.executable, "-c", SETUP + program]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    return [json.loads(line) for line in ended.stderr.splitlines()], ended.returncode
