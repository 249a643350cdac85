"""Runs commands: common options, exit codes, and errors printed as one line."""

import asyncio
import logging
from collections.abc import Coroutine
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
import typer
import uvloop
from pydantic import ValidationError

from libs.local_stack.errors import StackError
from libs.tally.errors import TallyError
from libs.tally.time import microseconds, parse_timestamp
from libs.telemetry.redaction import redacted
from services.cli.discovery import NoDeployment

DataDir = Annotated[
    Path, typer.Option("--data-dir", envvar="TALLY_DATA_DIR", help="Data directory of the running stack.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]


class ExitCode(IntEnum):
    """Exit codes of the `tally` command."""

    FINE = 0
    PROBLEM = 1
    BAD_USAGE = 2
    SERVER_AWAY = 3


BAD_USAGE_CODES: Final = frozenset({"validation_failed", "not_found"})
"""Codes of errors caused by arguments; all other permanent errors exit with `PROBLEM`."""


def run(work: Coroutine[Any, Any, ExitCode]) -> None:
    """Run a command; always raises `typer.Exit`. Expected errors print no traceback."""
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
        wrong = (f"TALLY_{'_'.join(map(str, one['loc'])).upper()}: {one['msg']}" for one in error.errors())
        ending = _print_error("; ".join(wrong), ExitCode.BAD_USAGE)
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
    raise typer.Exit(ending)


def moment(text: str, option: str) -> int:
    """Parse a timestamp into microseconds since 1970 UTC. Raises `BadParameter`, naming the option."""
    try:
        return microseconds(parse_timestamp(text))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def print_json(value: object) -> None:
    typer.echo(orjson.dumps(value).decode())


def _print_error(message: str, ending: ExitCode) -> ExitCode:
    typer.echo(f"Error: {redacted(message)}", err=True)
    return ending
