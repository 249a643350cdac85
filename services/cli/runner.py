"""Declares and runs commands: common options, output, progress, exit codes, and errors as one line.

A command is an async function of its options and, where it has a parameter of that type, a `Deployment`. It
returns a dataclass, its result, or yields several. `command` adds --data-dir and --json, connects, and prints.
"""

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import aclosing
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, get_type_hints

import typer
import uvloop
from pydantic import ValidationError
from rich.console import Console
from rich.live import Live

from libs.deployment.catalogue import Environment
from libs.deployment.deployment import Deployment
from libs.local_stack.errors import StackError
from libs.tally.errors import TallyError
from libs.tally.time import microseconds, parse_timestamp
from libs.telemetry.redaction import redacted
from services.cli.discovery import DATA_DIR, NoDeployment, find_addresses
from services.cli.operator import AuditedGroup
from services.cli.progress import ProgressBar
from services.cli.render import Block, as_json, fields, group, new_console, show

DataDir = Annotated[
    Path, typer.Option("--data-dir", envvar="TALLY_DATA_DIR", help="Data directory of the running stack.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, a line for each result.")]
Execute = Annotated[bool, typer.Option("--execute", help="Execute it; default: only show the effect.")]
ContestKey = Annotated[str, typer.Argument(help="Key of the contest.")]
EnvironmentOption = Annotated[
    Environment, typer.Option("--environment", help="Production, or the separate legacy test environment.")
]

Function = Callable[..., Coroutine[Any, Any, Any] | AsyncGenerator[Any, None]]
Text = Callable[[Any], Iterable[Block]]


class ExitCode(IntEnum):
    """Exit codes of the `tally` command."""

    FINE = 0
    PROBLEM = 1
    BAD_USAGE = 2
    SERVER_AWAY = 3


BAD_USAGE_CODES: Final = frozenset({"validation_failed", "not_found"})
"""Codes of errors caused by arguments; all other permanent errors exit with `PROBLEM`."""


def command_group(help_: str, cls: type[AuditedGroup] = AuditedGroup) -> typer.Typer:
    """Return a group of commands, such as `tally keys`."""
    return typer.Typer(cls=cls, no_args_is_help=True, help=help_)


def command(
    *,
    text: Text = fields,
    is_fine: Callable[[Any], bool] = lambda _: True,
    exit_code: Callable[[Any], ExitCode] | None = None,
    redraw: str = "",
) -> Callable[[Function], Callable[..., None]]:
    """Make a function a command, to be registered with a group's `command`.

    `text` renders a result for people; --json prints its members. The exit code is `exit_code` of the (last)
    result, by default 1 unless `is_fine`. `redraw` names an option
    with which a terminal shows only the latest of several results.
    """

    def code_of(result: object) -> ExitCode:
        return exit_code(result) if exit_code else ExitCode.FINE if is_fine(result) else ExitCode.PROBLEM

    def declare(function: Function) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        parameters = dict(inspect.signature(function).parameters)
        connects = next((name for name in parameters if hints[name] is Deployment), None)
        common: dict[str, tuple[Any, Any]] = {} if connects is None else {"data_dir": (DataDir, DATA_DIR)}
        common["as_json"] = AsJson, False

        def run_command(**given: Any) -> None:
            data_dir, in_json = given.get("data_dir", DATA_DIR), given["as_json"]
            taken = {name: value for name, value in given.items() if name in parameters}
            output = _Output(text, in_json=in_json, redraw=bool(given.get(redraw)))

            async def work() -> ExitCode:
                async with Deployment(partial(find_addresses, data_dir), output.progress) as deployment:
                    made = function(**taken, **({connects: deployment} if connects else {}))
                    ending = ExitCode.FINE
                    with output:
                        async with aclosing(_results(made)) as results:
                            async for result in results:
                                output.show(result)
                                ending = code_of(result)
                    return ending

            run(work())

        shown = {name: (hints[name], one.default) for name, one in parameters.items() if name != connects} | {
            name: one for name, one in common.items() if name not in parameters
        }
        run_command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=hint, default=default)
                for name, (hint, default) in shown.items()
            ]
        )
        run_command.__annotations__ = {name: hint for name, (hint, _) in shown.items()}
        run_command.__name__, run_command.__doc__ = function.__name__, function.__doc__
        return run_command

    return declare


async def _results(made: Coroutine[Any, Any, Any] | AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
    if isinstance(made, AsyncGenerator):
        async with aclosing(made) as results:
            async for result in results:
                yield result
    else:
        yield await made


class _Output:
    """Prints results; progress is shown in between."""

    def __init__(self, text: Text, *, in_json: bool, redraw: bool) -> None:
        self.progress = ProgressBar(quiet=in_json)
        self._text = text
        self._in_json = in_json
        self._console: Console = new_console()
        terminal = self._console.is_terminal and not in_json
        self._live = Live(console=self._console, auto_refresh=False) if redraw and terminal else None

    def __enter__(self) -> None:
        if self._live is not None:
            self._live.start()

    def __exit__(self, *_: object) -> None:
        self.progress.end()
        if self._live is not None:
            self._live.stop()

    def show(self, result: object) -> None:
        self.progress.end()
        if self._in_json:
            typer.echo(as_json(result))
        elif self._live is not None:
            self._live.update(group(self._text(result), self._console), refresh=True)
        else:
            show(self._text(result), self._console)


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


def _print_error(message: str, ending: ExitCode) -> ExitCode:
    typer.echo(f"Error: {redacted(message)}", err=True)
    return ending
