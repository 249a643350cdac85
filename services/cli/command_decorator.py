"""Declares commands, with their common options, and finds contests and their titles.

A command is an async function of its options and, where it has a parameter of that type, a `Deployment`. It
returns a `Result`, or yields several; one that prints by itself returns None. `command` adds --data-dir and
--json, connects, and prints. A parameter of another dataclass stands for its fields: each is an option.
"""

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, get_args, get_type_hints

import typer
from typer import Argument, BadParameter, Option

from libs.audit.recount import titles_of
from libs.catalogue.api_keys import list_keys
from libs.catalogue.resource_table import CONTESTS
from libs.contracts.catalogue_events import Stored
from libs.deployment.deployment import Deployment
from libs.deployment.environment_catalogue import Catalogue, Environment
from libs.tally.errors import LogUnavailable, NotFound, ViewsUnavailable
from libs.tally.time_conversion import microseconds, parse_timestamp
from libs.views.catalogue.catalogue_views import Order
from libs.views.catalogue.stored_records import DELETED_CONTESTS
from services.cli.deployment_discovery import DATA_DIR, NoDeployment, find_addresses
from services.cli.operator_actions import AuditedGroup
from services.cli.output import ExitCode, Output, Result, run

PAGE: Final = 500
MOST_NAMED: Final = 5
"""Contests of the same title that an error lists."""


@dataclass(frozen=True, slots=True)
class Titles:
    """Titles of a contest and, by key, of its participants; empty for a contest that was deleted."""

    contest: str
    title: str = ""
    participants: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return named(self.contest, self.title)

    def of(self, participant: str) -> str:
        return self.participants.get(participant, "")


def named(key: str, title: str) -> str:
    """Return the title with the key, or the key of a record without a title."""
    return f"{title} ({key})" if title else key


async def read_titles(deployment: Deployment, contest: str) -> Titles:
    """Return the contest's current titles; without the catalogue's views, none."""
    try:
        _, config = await deployment.catalogue.contest(contest)
    except (NotFound, ViewsUnavailable):
        return Titles(contest)
    title = "" if config.contest is None else config.contest.document.get("title") or ""
    return Titles(contest, title, titles_of(config))


async def titles_by_key(deployment: Deployment, contests: Iterable[str]) -> dict[str, str]:
    """Return the titles of the contests and of their participants."""
    found: dict[str, str] = {}
    for contest in set(contests):
        titles = await read_titles(deployment, contest)
        found |= {contest: titles.title, **titles.participants}
    return found


async def find_contest(deployment: Deployment, given: str) -> str:
    """Return the key of the contest with this key or title, ignoring case; an unknown name is returned as it is.

    The log may still hold a deleted contest, so commands themselves refuse an unknown key. Raises `BadParameter`
    if several contests have the title.
    """
    try:
        if await deployment.catalogue.views.find_owner(CONTESTS.name, given) is not None:
            return given
        entitled = [
            stored.key async for _, stored in all_contests(deployment.catalogue) if _is_title(stored, given)
        ]
    except ViewsUnavailable:  # The log alone suffices for some commands.
        return given
    if len(entitled) > 1:
        keys = ", ".join(entitled[:MOST_NAMED]) + (", ..." if len(entitled) > MOST_NAMED else "")
        raise BadParameter(
            f"{len(entitled)} contests have the title {given}; give one of the keys: {keys}", param_hint="CONTEST"
        )
    return entitled[0] if entitled else given


async def all_contests(catalogue: Catalogue, *, deleted: bool = False) -> AsyncIterator[tuple[str, Stored]]:
    """Yield each contest with its account, newest first within an account, for the accounts that have API keys.

    The `deleted` ones, by the time of the deletion, or all others.
    """
    views = catalogue.views
    for account in sorted({key.account for key in await list_keys(views)}):
        after: int | str = ""
        resource = DELETED_CONTESTS if deleted else CONTESTS.name
        order: Order = "updated" if deleted else "created"
        while page := await views.page(account, resource, order=order, after=after, limit=PAGE):
            for stored in page:
                yield account, stored
            after = page[-1].updated if deleted else page[-1].created


def _is_title(stored: Stored, given: str) -> bool:
    return str(stored.document.get("title") or "").strip().casefold() == given.strip().casefold()


DataDir = Annotated[
    Path, Option("--data-dir", envvar="TALLY_DATA_DIR", help="Data directory of the running stack.")
]
AsJson = Annotated[bool, Option("--json", help="Print JSON, a line for each result.")]
Execute = Annotated[bool, Option("--execute", help="Execute it; default: only show the effect.")]
FIND_S: Final = 5.0
"""Seconds that a command waits for the list of topics."""
CONTEST: Final = "contest"
"""Marks a parameter that takes a contest's key or title; the function receives the key."""
ContestKey = Annotated[
    str,
    Argument(metavar="CONTEST", help="Key of the contest, or its title if only one has it."),
    CONTEST,
]
OneContest = Annotated[
    str | None,
    Argument(metavar="CONTEST", help="Key or title of one contest.", show_default=False),
    CONTEST,
]
EnvironmentOption = Annotated[
    Environment, Option("--environment", help="Production, or the separate legacy test environment.")
]

Function = Callable[..., Coroutine[Any, Any, Result | None] | AsyncGenerator[Result, None]]


class DefaultGroup(AuditedGroup):
    """Runs `default` if the arguments name no command."""

    default = ""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        names = {*self.commands, *ctx.help_option_names}
        is_given = args[0] in names if args else self.no_args_is_help
        return super().parse_args(ctx, args if is_given else [self.default, *args])


def command_group(help_: str, default: str = "", *, no_args_is_help: bool = True) -> typer.Typer:
    """Return a group of commands, such as `tally keys`; the name of the `default` command may be omitted."""
    cls = type("Group", (DefaultGroup,), {"default": default}) if default else AuditedGroup
    return typer.Typer(cls=cls, no_args_is_help=no_args_is_help, help=help_)


def command(
    group: typer.Typer | None = None, name: str | None = None, *, redraw: str = "", finds_topics: bool = True
) -> Callable[[Function], Callable[..., None]]:
    """Make a function a command, of the `group` if one is given; the exit code is that of its (last) result.

    `redraw` names an option with which a terminal shows only the latest of several results. Unless `finds_topics`,
    the function finds the topics of the votes itself.
    """

    def declare(function: Function) -> Callable[..., None]:
        def run_command(**given: Any) -> None:
            output = Output(in_json=given["as_json"], redraw=bool(given.get(redraw)))
            run(_execute(function, given, output, finds_topics))

        options = _options(function)
        run_command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
        run_command.__annotations__ = {option.name: option.annotation for option in options}
        run_command.__name__, run_command.__doc__ = function.__name__, _unwrapped(function.__doc__)
        return run_command if group is None else group.command(name)(run_command)

    return declare


def _unwrapped(text: str | None) -> str:
    """Return the docstring with a line per paragraph, which the terminal's width then wraps."""
    return "\n\n".join(" ".join(part.split()) for part in (text or "").split("\n\n"))


def _options(function: Function) -> list[inspect.Parameter]:
    """Return the function's options, by name only, and the common ones that it does not take itself."""
    found: dict[str, tuple[Any, Any]] = {}
    own = inspect.signature(function, eval_str=True).parameters
    for name, parameter in own.items():
        if parameter.annotation is Deployment:
            continue
        if is_dataclass(parameter.annotation):
            hints = get_type_hints(parameter.annotation, include_extras=True)
            for field in fields(parameter.annotation):
                default = inspect.Parameter.empty if field.default is MISSING else field.default
                found[field.name] = hints[field.name], default
        else:
            found[name] = parameter.annotation, parameter.default
    if any(parameter.annotation is Deployment for parameter in own.values()):
        found.setdefault("data_dir", (DataDir, DATA_DIR))
    found.setdefault("as_json", (AsJson, False))
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=hint, default=default)
        for name, (hint, default) in found.items()
    ]


async def _execute(function: Function, given: Mapping[str, Any], output: Output, finds_topics: bool) -> ExitCode:
    """Call the function with the given options that it takes, and print its results."""
    find, code = partial(find_addresses, given.get("data_dir", DATA_DIR)), ExitCode.FINE
    async with Deployment(find, output.progress) as deployment:
        arguments: dict[str, Any] = {}
        for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
            kind = parameter.annotation
            if kind is Deployment:
                arguments[name] = deployment
                if finds_topics:
                    await _find_topics(deployment)
            elif is_dataclass(kind) and isinstance(kind, type):
                arguments[name] = kind(**{field.name: given[field.name] for field in fields(kind)})
            elif CONTEST in get_args(kind) and given[name] is not None:
                arguments[name] = await find_contest(deployment, given[name])
            else:
                arguments[name] = given[name]
        with output:
            async with aclosing(_results(function(**arguments))) as results:
                async for result in results:
                    output.show(result)
                    code = result.code
    return code


async def _find_topics(deployment: Deployment) -> None:
    """Find the topics of the votes; the command itself reports that Kafka is away or a setting is wrong."""
    with suppress(LogUnavailable, NoDeployment, OSError, ValueError):
        async with asyncio.timeout(FIND_S):
            await deployment.find_topics()


async def _results(
    made: Coroutine[Any, Any, Result | None] | AsyncGenerator[Result, None],
) -> AsyncGenerator[Result, None]:
    if isinstance(made, AsyncGenerator):
        async with aclosing(made) as results:
            async for result in results:
                yield result
    elif (only := await made) is not None:
        yield only


def moment(text: str, option: str) -> int:
    """Parse a timestamp into microseconds since 1970 UTC. Raises `BadParameter`, naming the option."""
    try:
        return microseconds(parse_timestamp(text))
    except ValueError as error:
        raise BadParameter(str(error), param_hint=option) from None
