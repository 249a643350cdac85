"""`tally doctor`: reports problems of this machine and the running stack, each with a remedy."""

import hashlib
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final

import httpx
from platformdirs import user_cache_path
from rich.text import Text
from typer import Option

from libs.deployment.deployment import Deployment
from libs.local_stack import java, ports, valkey
from libs.local_stack.errors import StackError
from libs.local_stack.java import pins
from libs.local_stack.settings import StackSettings
from libs.local_stack.stack_json import base_url
from services.cli.command_decorator import DataDir, command
from services.cli.commands.doctor.servers import Finding, check_servers, fine, problem
from services.cli.deployment_discovery import DATA_DIR, NoDeployment
from services.cli.output import Block, ExitCode, Result, plural
from services.cli.settings_check import check_settings, unknown_settings

OLDEST_PYTHON: Final = (3, 11)
ANSWER_S: Final = 2.0
PROBLEM: Final = "problem  ", "bold red"


@command(finds_topics=False)
async def doctor(
    deployment: Deployment,
    port: Annotated[int, Option(envvar="TALLY_PORT", help="HTTP port that `tally up` would use.")] = 8080,
    data_dir: DataDir = DATA_DIR,
) -> Result:
    """Check this machine and the running stack; every problem is printed with a remedy."""
    try:
        check_settings()
        settings = StackSettings(data_dir=data_dir)
    except StackError as error:
        return diagnosis([problem("settings", "wrong", error.message)], stack=False)
    misspelt = [problem("settings", line, "correct or unset it") for line in unknown_settings()]
    try:
        local = bool(deployment.description)
    except NoDeployment:
        none = fine("stack", f"none runs on {data_dir}; start one with `tally up` or `tally demo`")
        return diagnosis([*misspelt, *check_machine(settings, data_dir, port), none], stack=False)
    findings = misspelt + list(check_machine(settings, data_dir, None if local else port))
    return diagnosis(findings + [finding async for finding in check_servers(deployment)], stack=True)


def diagnosis(checks: Sequence[Finding], *, stack: bool) -> Result:
    """Return the results of all checks; `stack`: those of a running stack or of given servers are among them."""
    text: list[Block] = []
    for check in checks:
        mark = ("ok       ", "green") if check.ok else ("follows  ", "red") if check.follows else PROBLEM
        text.append(Text.assemble(mark, f"{check.name}: {check.detail}"))
        if check.remedy:
            text.append(Text(f"         → {check.remedy}", style="yellow"))
    problems = sum(not check.ok for check in checks)
    if problems:
        causes = sum(not check.ok and not check.follows for check in checks)
        rest = f", and what probably follows from them: {problems - causes}" if problems > causes else ""
        text.append(f"{plural(causes, 'problem')} found{rest}.")
    elif stack:
        text.append("Nothing is wrong.")
    else:
        text.append("Nothing is wrong with this machine. No service was checked, because none runs here.")
    away = any(check.away for check in checks)
    code = ExitCode.SERVER_AWAY if away else ExitCode.fine_if(not problems)
    return Result({"checks": checks, "stack": stack, "ok": not problems}, text, code)


def check_machine(settings: StackSettings, data_dir: Path, port: int | None) -> Iterator[Finding]:
    """Run the checks; `port` is the gateway's future port, None skips that check."""
    yield _python()
    yield _disk(data_dir, settings.stack_min_free_mb)
    if port is not None:
        yield _port(port, settings.host)
    if settings.stack == "containers":
        return
    if settings.valkey_url is None:
        yield _found("Valkey server", valkey.find, _valkey_version)
    if settings.kafka_bootstrap_servers is None:
        yield _found("Java", java.find, lambda path: f"Java {java.major_version(str(path))}")
        yield _jars(user_cache_path("tallykeeper") / "kafka-4.3.0")


def _python() -> Finding:
    version = platform.python_version()
    if sys.version_info[:2] < OLDEST_PYTHON:
        return problem("Python", version, "install Python 3.11 or newer")
    return fine("Python", f"{version} on {platform.system()} {platform.machine()}")


def _disk(data_dir: Path, least_mb: int) -> Finding:
    place = data_dir.expanduser().resolve()
    while not place.exists():
        place = place.parent
    free_mb = shutil.disk_usage(place).free // 2**20
    if free_mb < least_mb:
        return problem("free disk", f"{free_mb:,} MB at {place}", "free some, or choose another --data-dir")
    return fine("free disk", f"{free_mb:,} MB at {place}")


def _port(port: int, host: str) -> Finding:
    if ports.is_free(port, host):
        return fine("port", f"{port} is free")
    if _is_ours(port, host):
        return fine("port", f"{port} is this service's, which runs")
    return problem(
        "port", f"{port} is in use", "start with --port or --any-port, or stop the process that uses it"
    )


def _is_ours(port: int, host: str) -> bool:
    """Return whether a gateway listens here, as in the container that this command runs in."""
    try:
        answer = httpx.get(f"{base_url(host, port)}/livez", timeout=ANSWER_S, trust_env=False)
        return bool(answer.json() == {"status": "alive"})
    except (httpx.HTTPError, ValueError):
        return False


def _found(name: str, find: Callable[[], Path], version: Callable[[Path], str]) -> Finding:
    try:
        path = find()
    except StackError as error:
        return problem(name, "not found", error.message)
    return fine(name, f"{version(path)} at {path}")


def _valkey_version(path: Path) -> str:
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as error:
        return f"does not run ({error})"
    words = said.stdout.split()
    return next((word.removeprefix("v=") for word in words if word.startswith("v=")), "of unknown version")


def _jars(home: Path) -> Finding:
    """Hash every jar again, whatever was noted when it was downloaded."""
    wanted = pins()
    missing, wrong = 0, []
    for pin in wanted:
        group, artifact, version = pin.coordinate.split(":")
        jar = home.joinpath("repository", *group.split("."), artifact, version, f"{artifact}-{version}.jar")
        if not jar.exists():
            missing += 1
            continue
        with jar.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != pin.sha256:
                wrong.append(jar.name)
    if wrong:
        remedy = f"remove {home}: the next start downloads them again"
        return problem("Kafka's jars", f"other checksums than pinned: {', '.join(wrong)}", remedy)
    if missing:
        return fine("Kafka's jars", f"{missing} of {len(wanted)} will be downloaded at the next start")
    return fine("Kafka's jars", f"{len(wanted)} cached, checksums as pinned")
