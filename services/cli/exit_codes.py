"""Runs a command to its exit code; expected errors are one line."""

import asyncio
import logging
from collections.abc import Coroutine
from enum import IntEnum
from typing import Any, Final

import typer
import uvloop
from pydantic import ValidationError
from pydantic_settings import BaseSettings
from typer import Exit

from libs.local_stack.errors import StackError
from libs.tally.errors import TallyError
from libs.telemetry.environment_settings import describe_problems
from libs.telemetry.redaction import redacted
from services.cli.deployment_discovery import NoDeployment


class ExitCode(IntEnum):
    """Exit codes of the `tally` command."""

    FINE = 0
    PROBLEM = 1
    BAD_USAGE = 2
    SERVER_AWAY = 3

    @classmethod
    def fine_if(cls, condition: bool) -> "ExitCode":
        return cls.FINE if condition else cls.PROBLEM


BAD_USAGE_CODES: Final = frozenset({"validation_failed", "not_found"})
"""Codes of errors caused by arguments; all other permanent errors exit with `PROBLEM`."""


def run(work: Coroutine[Any, Any, ExitCode]) -> None:
    """Run a command; always raises `Exit`. Expected errors print no traceback."""
    for noisy in ("aiokafka", "kafka", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
    try:
        ending = uvloop.run(work)
    except NoDeployment as error:
        ending = _print_error(str(error), ExitCode.SERVER_AWAY)
    except TallyError as error:
        if error.code in BAD_USAGE_CODES:
            ending = _print_error(error.message, ExitCode.BAD_USAGE)
        elif error.retry_after_s is None:
            ending = _print_error(str(error), ExitCode.PROBLEM)
        else:
            ending = _print_error(
                f"{str(error).rstrip('.')}. Run `tally doctor` for details.", ExitCode.SERVER_AWAY
            )
    except ValidationError as error:
        ending = _print_error(describe_problems(error), ExitCode.BAD_USAGE)
    except StackError as error:
        ending = _print_error(error.message, ExitCode(int(error.exit_code)))
    except asyncio.CancelledError:
        # Only a library cancels a command (Ctrl-C is a KeyboardInterrupt), when its connection ends.
        ending = _print_error(
            "A connection to a server ended: run it again. Run `tally doctor` for details.",
            ExitCode.SERVER_AWAY,
        )
    except KeyboardInterrupt:
        ending = _print_error("Interrupted.", ExitCode.PROBLEM)
    raise Exit(ending)


def check_environment(*classes: type[BaseSettings]) -> None:
    """Warn of unknown settings; exit with a line for wrong ones of `classes`, by default of all."""
    from services.cli.commands.config import check_settings, unknown_settings  # noqa: PLC0415 (only if needed)

    for line in unknown_settings():
        typer.echo(f"Warning: {line}", err=True)
    try:
        check_settings(*classes)
    except StackError as error:
        raise Exit(_print_error(error.message, ExitCode(int(error.exit_code)))) from None


def _print_error(message: str, ending: ExitCode) -> ExitCode:
    typer.echo(f"Error: {redacted(message)}", err=True)
    return ending
