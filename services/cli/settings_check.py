"""Checks the settings in the environment before a command starts services: wrong and probably misspelt ones."""

import os
from collections.abc import Iterator, Mapping
from typing import Final

import typer
from pydantic import ValidationError
from pydantic_settings import BaseSettings
from typer import Exit

from libs.contracts.validation import likely
from libs.local_stack.errors import StackError
from libs.local_stack.settings import StackSettings
from libs.telemetry.environment_settings import PREFIX, describe_problems, known_variables, link_variables
from services.cli.output import ExitCode, print_error
from services.gateway.settings import Settings as GatewaySettings
from services.projector.settings import Settings as ProjectorSettings

SETTINGS: Final[tuple[type[BaseSettings], ...]] = (GatewaySettings, ProjectorSettings, StackSettings)
"""Classes of settings; of a setting that several define, the first definition applies."""
OF_CLIENTS: Final = frozenset({"TALLY_URL", "TALLY_API_KEY"})
"""Variables that `tally up` prints for clients of the API."""
OF_TESTS: Final = "TALLY_TESTS_"


def check_settings(*classes: type[BaseSettings]) -> None:
    """Raise `StackError`, which names the wrong settings of `classes`, by default of all."""
    for each in classes or SETTINGS:
        try:
            each()
        except ValidationError as error:
            raise StackError("wrong_setting", describe_problems(error)) from None


def unknown_settings(environment: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Yield a line for each variable with the prefix that is no setting, and probably misspelt."""
    known = known_variables(SETTINGS) | OF_CLIENTS
    for name in sorted(environment.keys() - known - link_variables(environment)):
        if name.startswith(PREFIX) and not name.startswith(OF_TESTS):
            yield f"{name} is no setting{likely(name, known) or '.'}"


def check_environment(*classes: type[BaseSettings]) -> None:
    """Warn of unknown settings; exit with a line for wrong ones of `classes`, by default of all."""
    for line in unknown_settings():
        typer.echo(f"Warning: {line}", err=True)
    try:
        check_settings(*classes)
    except StackError as error:
        raise Exit(print_error(error.message, ExitCode(int(error.exit_code)))) from None
