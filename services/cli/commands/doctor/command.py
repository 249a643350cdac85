"""`tally doctor`: reports problems of this machine and the running stack, each with a remedy."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.text import Text

from libs.deployment.deployment import Deployment
from libs.local_stack.errors import StackError
from libs.local_stack.settings import StackSettings
from services.cli.command_decorator import DataDir, command
from services.cli.commands.doctor.finding import Finding, fine, problem
from services.cli.commands.doctor.machine import check_machine
from services.cli.commands.doctor.servers import check_servers
from services.cli.deployment_discovery import DATA_DIR, NoDeployment
from services.cli.exit_codes import ExitCode
from services.cli.render import Block, plural
from services.cli.settings_check import check_settings, unknown_settings


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Results of all checks; `stack`: those of a running stack or of given servers are among them."""

    checks: list[Finding]
    stack: bool

    @property
    def ok(self) -> bool:
        return all(one.ok for one in self.checks)


def _text(result: Diagnosis) -> Iterator[Block]:
    for one in result.checks:
        mark = ("ok       ", "green") if one.ok else ("problem  ", "bold red")
        yield Text.assemble(mark, f"{one.name}: {one.detail}")
        if one.remedy:
            yield Text(f"         → {one.remedy}", style="yellow")
    problems = sum(not one.ok for one in result.checks)
    if problems:
        yield f"{plural(problems, 'problem')} found."
    elif result.stack:
        yield "Nothing is wrong."
    else:
        yield "Nothing is wrong with this machine. No service was checked, because none runs here."


def _ending(result: Diagnosis) -> ExitCode:
    if any(one.away for one in result.checks):
        return ExitCode.SERVER_AWAY
    return ExitCode.FINE if result.ok else ExitCode.PROBLEM


@command(text=_text, exit_code=_ending, finds_topics=False)
async def doctor(
    deployment: Deployment,
    port: Annotated[int, typer.Option(envvar="TALLY_PORT", help="HTTP port that `tally up` would use.")] = 8080,
    data_dir: DataDir = DATA_DIR,
) -> Diagnosis:
    """Check this machine and the running stack; every problem is printed with a remedy."""
    try:
        check_settings()
        settings = StackSettings(data_dir=data_dir)
    except StackError as error:
        return Diagnosis([problem("settings", "wrong", error.message)], stack=False)
    misspelt = [problem("settings", line, "correct or unset it") for line in unknown_settings()]
    try:
        local = bool(deployment.description)
    except NoDeployment:
        none = fine("stack", f"none runs on {data_dir}; start one with `tally up` or `tally demo`")
        return Diagnosis([*misspelt, *check_machine(settings, data_dir, port), none], stack=False)
    findings = misspelt + list(check_machine(settings, data_dir, None if local else port))
    return Diagnosis(findings + [finding async for finding in check_servers(deployment)], stack=True)
