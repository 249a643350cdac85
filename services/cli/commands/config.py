"""`tally config`: every setting, its value, and where that came from."""

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import typer
from pydantic import ValidationError
from pydantic_settings import BaseSettings
from rich.console import Console
from rich.table import Table

from libs.local_stack import description
from libs.local_stack.settings import StackSettings
from libs.telemetry.redaction import redacted
from services.cli.discovery import DATA_DIR
from services.cli.runner import AsJson, DataDir, ExitCode, print_json, run
from services.gateway.settings import Settings as GatewaySettings
from services.projector.settings import Settings as ProjectorSettings

app = typer.Typer(no_args_is_help=True, help="The settings.")

SETTINGS: Final[tuple[type[BaseSettings], ...]] = (GatewaySettings, ProjectorSettings, StackSettings)
"""Where several know a setting, the first says what it is."""
IN_STACK: Final = {
    "kafka_bootstrap_servers": "kafka",
    "valkey_url": "valkey",
    "storage_url": "storage_url",
    "namespace": "namespace",
    "partitions": "partitions",
}
"""The settings that commands take from a running stack, by the member of stack.json."""
OF_THE_STACK: Final = frozenset({"namespace", "partitions"})
"""Those of them in which a running stack's word goes before the environment's."""
HIDDEN: Final = "***"


@dataclass(frozen=True, slots=True)
class Value:
    """One setting as the commands and, unless `tally up` sets it, the services take it. Secrets are hidden."""

    setting: str
    value: str | int | float | None
    origin: str
    meaning: str
    problem: str | None = None


@app.command()
def show(data_dir: DataDir = DATA_DIR, as_json: AsJson = False) -> None:
    """Every setting, its value, and whether that comes from the environment, a running stack or is the default."""

    async def work() -> ExitCode:
        found = read_config(data_dir, os.environ)
        if as_json:
            print_json({"settings": [asdict(one) for one in found], "unknown": unknown(os.environ)})
        else:
            _show(found)
        return ExitCode.BAD_USAGE if any(one.problem for one in found) else ExitCode.FINE

    run(work())


def read_config(data_dir: Path, environment: Mapping[str, str]) -> list[Value]:
    """By the settings' names."""
    fields = {name: field for each in reversed(SETTINGS) for name, field in each.model_fields.items()}
    problems = {name: text for each in reversed(SETTINGS) for name, text in _problems(each).items()}
    stack = description.read(data_dir) or {}
    found = []
    for name, field in sorted(fields.items()):
        variable, member = f"TALLY_{name.upper()}", IN_STACK.get(name, "")
        value, origin = field.default, "default"
        if member in stack:
            value, origin = stack[member], "stack.json"
        if environment.get(variable) and not (name in OF_THE_STACK and member in stack):
            value, origin = environment[variable], "environment"
        if name == "data_dir" and str(data_dir) != str(value):
            value, origin = data_dir, "--data-dir"
        shown = HIDDEN if value is not None and "SecretStr" in str(field.annotation) else _shown(value)
        found.append(Value(variable, shown, origin, field.description or "", problems.get(name)))
    return found


def unknown(environment: Mapping[str, str]) -> list[str]:
    """Variables with our prefix that are no setting: misspelt, perhaps."""
    known = {f"TALLY_{name.upper()}" for each in SETTINGS for name in each.model_fields}
    return sorted(name for name in environment if name.startswith("TALLY_") and name not in known)


def _problems(settings: type[BaseSettings]) -> dict[str, str]:
    try:
        settings()
    except ValidationError as error:
        return {_setting_of(one["loc"], one["msg"]): one["msg"] for one in error.errors()}
    return {}


def _setting_of(location: tuple[int | str, ...], message: str) -> str:
    """The field that a problem is about; one between several settings names the first of them in its message."""
    if location:
        return str(location[0])
    named = re.search(r"TALLY_([A-Z_]+)", message)
    return named[1].lower() if named is not None else ""


def _shown(value: Any) -> str | int | float | None:
    if value is None or isinstance(value, int | float):
        return value
    return redacted(str(value))


def _show(found: list[Value]) -> None:
    """A table on a terminal, a line a setting elsewhere."""
    console = Console(highlight=False, soft_wrap=True, markup=False)
    table = Table("setting", "value", "from", "meaning", box=None)
    for one in found:
        value = "" if one.value is None else str(one.value)
        if console.is_terminal:
            table.add_row(one.setting, value, one.origin, one.problem or one.meaning)
        else:
            console.out(f"{one.setting}={value} ({one.origin}){f': {one.problem}' if one.problem else ''}")
    if console.is_terminal:
        console.print(table, soft_wrap=False)
    for name in unknown(os.environ):
        console.print(f"{name} is set, but is no setting.")
