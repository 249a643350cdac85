"""`tally config`: lists the settings with their values and the origins of these."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import psutil
from pydantic import ValidationError
from pydantic_settings import BaseSettings

from libs.local_stack import stack_json
from libs.telemetry.environment_settings import (
    OF_FILE,
    link_variables,
    variable_of,
)
from libs.telemetry.redaction import redacted
from services.cli.command_decorator import DataDir, command, command_group
from services.cli.deployment_discovery import DATA_DIR
from services.cli.output import ExitCode, Result, Rows
from services.cli.settings_check import SETTINGS, unknown_settings

app = command_group("Settings and their values.")

STACK_MEMBERS: Final = {
    "kafka_bootstrap_servers": "kafka",
    "valkey_url": "valkey",
    "storage_url": "storage_url",
    "namespace": "namespace",
    "partitions": "partitions",
}
"""Settings that commands read from a running stack, with the member of stack.json."""
STACK_FIRST: Final = frozenset({"namespace", "partitions"})
"""Settings for which a running stack takes precedence over the environment."""
HIDDEN: Final = "***"


@command(app)
async def show(data_dir: DataDir = DATA_DIR) -> Result:
    """List every setting with its value and origin: this shell's environment, the running stack or the default."""
    links = link_variables(os.environ)
    environment = {name: value for name, value in os.environ.items() if name not in links}
    settings, unknown = read_config(data_dir, environment), list(unknown_settings(environment))
    rows = [
        {
            "setting": setting["setting"],
            "value": "" if setting["value"] is None else str(setting["value"]),
            "from": setting["origin"],
            "meaning": setting["problem"] or setting["meaning"],
        }
        for setting in settings
    ]
    code = ExitCode.BAD_USAGE if any(setting["problem"] for setting in settings) else ExitCode.FINE
    return Result({"settings": settings, "unknown": unknown}, [Rows(rows), *unknown], code)


def read_config(data_dir: Path, environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return all settings by name: the value that commands use and, unless `tally up` sets it, services.

    Secrets are hidden.
    """
    fields = {name: field for each in reversed(SETTINGS) for name, field in each.model_fields.items()}
    problems = {name: text for each in reversed(SETTINGS) for name, text in _problems(each).items()}
    stack = stack_json.read(data_dir) or {}
    gateways = (pid for name, pid in stack.get("pids", {}).items() if name.startswith("gateway"))
    running = _environment_of(next(gateways, None))
    found = []
    for name, field in sorted(fields.items()):
        variable, member = variable_of(name), STACK_MEMBERS.get(name, "")
        value, origin = field.get_default(call_default_factory=True), "default"
        if member in stack:
            value, origin = stack[member], "stack.json"
        if environment.get(variable) and not (name in STACK_FIRST and member in stack):
            value, origin = environment[variable], "environment"
        elif environment.get(variable + OF_FILE):
            value, origin = environment[variable + OF_FILE], "file"
        elif not member and variable in running:
            value, origin = running[variable], "running stack"
        if name == "data_dir" and str(data_dir) != str(value):
            value, origin = data_dir, "--data-dir"
        is_secret = "SecretStr" in str(field.annotation) and origin != "file"
        shown = HIDDEN if value is not None and is_secret else _shown(value)
        found.append(
            {
                "setting": variable,
                "value": shown,
                "origin": origin,
                "meaning": field.description or "",
                "problem": problems.get(name),
            }
        )
    return found


def _environment_of(pid: int | None) -> Mapping[str, str]:
    """Return the environment of a process, which has the settings that `tally up` gave it; {} if unknown."""
    try:
        return {} if pid is None else psutil.Process(pid).environ()
    except psutil.Error:
        return {}


def _problems(settings: type[BaseSettings]) -> dict[str, str]:
    try:
        settings()
    except ValidationError as error:
        problems = {_setting_of(one["loc"], one["msg"]): one["msg"] for one in error.errors(include_input=False)}
        fields = settings.model_fields
        return {name if name in fields else name.removesuffix("_file"): text for name, text in problems.items()}
    return {}


def _setting_of(location: tuple[int | str, ...], message: str) -> str:
    """Return the invalid field; an error about several settings names the first of them in its message."""
    if location:
        return str(location[0])
    named = re.search(r"TALLY_([A-Z_]+)", message)
    return named[1].lower() if named is not None else ""


def _shown(value: Any) -> str | int | float | None:
    if value is None or isinstance(value, int | float):
        return value
    return redacted(str(value))
