"""Declares commands, with their common options.

A command is an async function of its options and, where it has a parameter of that type, a `Deployment`. It
returns a dataclass, its result, or yields several. `command` adds --data-dir and --json, connects, and prints.
"""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, get_args, get_type_hints

import typer

from libs.deployment.deployment import Deployment
from libs.deployment.environment_catalogue import Environment
from libs.tally.errors import LogUnavailable
from libs.tally.time_conversion import microseconds, parse_timestamp
from services.cli.contest_lookup import find_contest
from services.cli.deployment_discovery import DATA_DIR, NoDeployment, find_addresses
from services.cli.exit_codes import ExitCode, run
from services.cli.operator_actions import AuditedGroup
from services.cli.output import Output, Text
from services.cli.render import fields

DataDir = Annotated[
    Path, typer.Option("--data-dir", envvar="TALLY_DATA_DIR", help="Data directory of the running stack.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, a line for each result.")]
Execute = Annotated[bool, typer.Option("--execute", help="Execute it; default: only show the effect.")]
FIND_S: Final = 5.0
"""Seconds that a command waits for the list of topics."""
CONTEST: Final = "contest"
"""Marks a parameter that takes a contest's key or title; the function receives the key."""
ContestKey = Annotated[
    str,
    typer.Argument(metavar="CONTEST", help="Key of the contest, or its title if only one has it."),
    CONTEST,
]
OneContest = Annotated[
    str | None,
    typer.Argument(metavar="CONTEST", help="Key or title of one contest.", show_default=False),
    CONTEST,
]
EnvironmentOption = Annotated[
    Environment, typer.Option("--environment", help="Production, or the separate legacy test environment.")
]

Function = Callable[..., Coroutine[Any, Any, Any] | AsyncGenerator[Any, None]]


def command_group(help_: str, cls: type[AuditedGroup] = AuditedGroup) -> typer.Typer:
    """Return a group of commands, such as `tally keys`."""
    return typer.Typer(cls=cls, no_args_is_help=True, help=help_)


def command(
    *,
    text: Text = fields,
    is_fine: Callable[[Any], bool] = lambda _: True,
    exit_code: Callable[[Any], ExitCode] | None = None,
    redraw: str = "",
    finds_topics: bool = True,
) -> Callable[[Function], Callable[..., None]]:
    """Make a function a command, to be registered with a group's `command`.

    `text` renders a result for people; --json prints its members. The exit code is `exit_code` of the (last)
    result, by default 1 unless `is_fine`. `redraw` names an option with which a terminal shows only the latest
    of several results. Unless `finds_topics`, the function finds the topics of the votes itself.
    """

    def ending_of(result: object) -> ExitCode:
        return exit_code(result) if exit_code else ExitCode.FINE if is_fine(result) else ExitCode.PROBLEM

    def declare(function: Function) -> Callable[..., None]:
        def run_command(**given: Any) -> None:
            output = Output(text, in_json=given["as_json"], redraw=bool(given.get(redraw)))
            run(_execute(function, given, output, ending_of, finds_topics))

        options = {name: one for name, one in _parameters(function).items() if one.annotation is not Deployment}
        run_command.__signature__ = inspect.Signature(list(options.values()))  # type: ignore[attr-defined]
        run_command.__annotations__ = {name: one.annotation for name, one in options.items()}
        run_command.__name__, run_command.__doc__ = function.__name__, _unwrapped(function.__doc__)
        return run_command

    return declare


def _unwrapped(text: str | None) -> str:
    """Return the docstring with a line per paragraph, which the terminal's width then wraps."""
    return "\n\n".join(" ".join(part.split()) for part in (text or "").split("\n\n"))


def _parameters(function: Function) -> dict[str, inspect.Parameter]:
    """Return the function's parameters, by name only, and the common options that it does not take itself."""
    hints = get_type_hints(function, include_extras=True)
    own = inspect.signature(function).parameters
    found = {name: (hints[name], one.default) for name, one in own.items()}
    if Deployment in hints.values():
        found.setdefault("data_dir", (DataDir, DATA_DIR))
    found.setdefault("as_json", (AsJson, False))
    return {
        name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=hint, default=default)
        for name, (hint, default) in found.items()
    }


async def _execute(
    function: Function,
    given: Mapping[str, Any],
    output: Output,
    ending_of: Callable[[object], ExitCode],
    finds_topics: bool,
) -> ExitCode:
    """Call the function with the given options that it takes, and print its results."""
    find, ending = partial(find_addresses, given.get("data_dir", DATA_DIR)), ExitCode.FINE
    async with Deployment(find, output.progress) as deployment:
        if finds_topics and Deployment in get_type_hints(function).values():
            await _find_topics(deployment)
        taken = {name: given.get(name, deployment) for name in inspect.signature(function).parameters}
        for name in _contests(function):
            if taken[name] is not None:
                taken[name] = await find_contest(deployment, taken[name])
        with output:
            async with aclosing(_results(function(**taken))) as results:
                async for result in results:
                    output.show(result)
                    ending = ending_of(result)
    return ending


async def _find_topics(deployment: Deployment) -> None:
    """Find the topics of the votes; the command itself reports that Kafka is away or a setting is wrong."""
    with suppress(LogUnavailable, NoDeployment, OSError, ValueError):
        async with asyncio.timeout(FIND_S):
            await deployment.find_topics()


def _contests(function: Function) -> Iterator[str]:
    hints = get_type_hints(function, include_extras=True)
    return (name for name, hint in hints.items() if CONTEST in get_args(hint))


async def _results(made: Coroutine[Any, Any, Any] | AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
    if isinstance(made, AsyncGenerator):
        async with aclosing(made) as results:
            async for result in results:
                yield result
    else:
        yield await made


def moment(text: str, option: str) -> int:
    """Parse a timestamp into microseconds since 1970 UTC. Raises `BadParameter`, naming the option."""
    try:
        return microseconds(parse_timestamp(text))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
