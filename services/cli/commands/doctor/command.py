"""`tally doctor`: reports problems of this machine and the running stack, each with a remedy."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from libs.deployment.deployment import Deployment
from libs.local_stack.settings import StackSettings
from services.cli.commands.doctor.finding import Finding, fine
from services.cli.commands.doctor.machine import check_machine
from services.cli.commands.doctor.servers import check_servers
from services.cli.discovery import DATA_DIR, NoDeployment, find_deployment
from services.cli.runner import AsJson, DataDir, ExitCode, print_json, run


def doctor(
    data_dir: DataDir = DATA_DIR,
    port: Annotated[int, typer.Option(envvar="TALLY_PORT", help="HTTP port that `tally up` would use.")] = 8080,
    as_json: AsJson = False,
) -> None:
    """Check this machine and the running stack; every problem is printed with a remedy."""

    async def work() -> ExitCode:
        settings = StackSettings(data_dir=data_dir)
        stack = _stack(data_dir)
        local = stack is not None and bool(stack.description)
        findings = list(check_machine(settings, data_dir, None if local else port))
        if stack is None:
            findings.append(fine("stack", f"none runs on {data_dir}; start one with `tally up` or `tally demo`"))
        else:
            findings += [finding async for finding in check_servers(stack)]
        if as_json:
            print_json({"ok": _ending(findings) is ExitCode.FINE, "checks": [asdict(one) for one in findings]})
        else:
            show(findings)
        return _ending(findings)

    run(work())


def show(findings: list[Finding]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    if console.is_terminal:
        table = Table(show_header=False, box=None, padding=(0, 1, 0, 0))
        for one in findings:
            mark = "[green]ok[/]" if one.ok else "[bold red]problem[/]"
            detail = escape(one.detail) if one.ok else f"{escape(one.detail)}\n[yellow]→ {escape(one.way_out)}[/]"
            table.add_row(mark, one.name, detail)
        console.print(table, soft_wrap=False)
    else:
        for one in findings:
            way_out = f" -> {one.way_out}" if one.way_out else ""
            console.out(f"{'ok' if one.ok else 'problem'}: {one.name}: {one.detail}{way_out}")
    problems = sum(not one.ok for one in findings)
    console.print("Nothing is wrong." if not problems else f"{problems} problem{'s' * (problems > 1)} found.")


def _stack(data_dir: DataDir) -> Deployment | None:
    try:
        return find_deployment(data_dir)
    except NoDeployment:
        return None


def _ending(findings: list[Finding]) -> ExitCode:
    if any(one.away for one in findings):
        return ExitCode.SERVER_AWAY
    return ExitCode.FINE if all(one.ok for one in findings) else ExitCode.PROBLEM
