"""Declared commands: options, output, exit codes, and errors as one line."""

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner
from typer.testing import Result as Invocation

from libs.deployment.deployment import Deployment
from libs.tally.errors import LogUnavailable, NotFound, TallyError
from services.cli.command_decorator import Execute, command
from services.cli.output import ExitCode, Result


@dataclass(frozen=True, slots=True)
class Answer:
    number: int
    executed: bool = False

    @property
    def is_small(self) -> bool:
        return self.number < 10


@dataclass(frozen=True, slots=True)
class Addends:
    number: int
    plus: Annotated[int, typer.Option(help="Added to it.")] = 0


def result_of(number: int, executed: bool = False) -> Result:
    answer = Answer(number, executed)
    return Result(answer, [f"The number is {number}."], ExitCode.fine_if(answer.is_small))


def invoke(function: object, *arguments: str, **env: str) -> Invocation:
    app = typer.Typer()
    app.command()(function)  # type: ignore[type-var]
    return CliRunner().invoke(app, list(arguments), env=env)


@command()
async def double(addends: Addends, execute: Execute = False) -> Result:
    """Double a number."""
    return result_of(2 * addends.number + addends.plus, execute)


def test_a_result_is_printed_for_people_or_as_json_and_decides_the_exit_code() -> None:
    shown = invoke(double, "3", "--plus", "1")
    assert (shown.stdout, shown.exit_code) == ("The number is 7.\n", ExitCode.FINE)
    as_json = invoke(double, "30", "--execute", "--json")
    assert json.loads(as_json.stdout) == {"number": 60, "executed": True, "is_small": False}
    assert as_json.exit_code == ExitCode.PROBLEM


def test_help_is_the_docstring_with_the_common_options() -> None:
    text = invoke(double, "--help").stdout
    assert all(part in text for part in ("Double a number.", "Added to it.", "--json", "--execute"))
    assert "--data-dir" not in text


def test_several_results_are_a_line_each_and_the_last_decides() -> None:
    @command()
    async def count() -> AsyncGenerator[Result, None]:
        yield result_of(100)
        yield result_of(1)

    shown = invoke(count, "--json")
    assert [json.loads(line)["number"] for line in shown.stdout.splitlines()] == [100, 1]
    assert shown.exit_code == ExitCode.FINE


def test_a_deployment_is_opened_when_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TALLY_KAFKA_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.delenv("TALLY_VALKEY_URL", raising=False)

    @command()
    async def name(deployment: Deployment, use: bool = False) -> Result:
        return result_of(len(deployment.namespace) if use else 0)

    assert invoke(name, "--data-dir", str(tmp_path)).exit_code == ExitCode.FINE
    without = invoke(name, "--use", "--data-dir", str(tmp_path))
    assert (without.exit_code, "tally up" in without.stderr) == (ExitCode.SERVER_AWAY, True)


@pytest.mark.parametrize(
    ("error", "ending", "text"),
    [
        (NotFound("There is no such thing."), ExitCode.BAD_USAGE, "There is no such thing."),
        (TallyError("It is broken."), ExitCode.PROBLEM, "It is broken."),
        (
            LogUnavailable("Kafka is away", retry_after_s=1),
            ExitCode.SERVER_AWAY,
            "Kafka is away. Run `tally doctor`",
        ),
        (typer.BadParameter("Not that."), ExitCode.BAD_USAGE, "Not that."),
        # as a library cancels it
        (asyncio.CancelledError(), ExitCode.SERVER_AWAY, "A connection to a server ended: run it again."),
    ],
    ids=["bad usage", "a problem", "a server is away", "a bad parameter", "cancelled"],
)
def test_an_error_is_one_line_and_an_exit_code(error: BaseException, ending: ExitCode, text: str) -> None:
    @command()
    async def fail() -> Result:
        raise error

    failed = invoke(fail)
    assert (failed.exit_code, failed.stdout) == (ending, "")
    assert text in failed.stderr
    assert "Traceback" not in failed.stderr
    assert failed.stderr.count("\n") == 1 or isinstance(error, typer.BadParameter), "in a box of several lines"


def test_a_terminal_shows_the_latest_result_in_place_when_it_is_watched() -> None:
    @command(redraw="watch")
    async def count(watch: bool = False) -> AsyncGenerator[Result, None]:
        yield result_of(1)
        yield result_of(2)

    terminal = {"FORCE_COLOR": "1", "TERM": "xterm"}
    watched = invoke(count, "--watch", **terminal).stdout
    assert "\x1b[2K" in watched
    assert watched.rindex("is 2.") > watched.rindex("is 1.")
    assert "\x1b[2K" not in invoke(count, **terminal).stdout
    assert invoke(count, "--watch").stdout.splitlines() == ["The number is 1.", "The number is 2."]
