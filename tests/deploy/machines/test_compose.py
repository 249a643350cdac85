"""deploy/compose.yaml as an operator runs it, on images of which Kafka's and Valkey's are stand-ins."""

import asyncio
import re
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests.deploy.machines import images
from tests.deploy.machines.conftest import Row
from tests.deploy.machines.machine import INSIDE, Machine
from tests.deploy.machines.voting import voting
from tests.support.clients.http_clients import http_client
from tests.support.eventually import eventually
from tests.support.run_profile import by_profile

pytestmark = pytest.mark.stack

BASE_URL = "http://127.0.0.1:8080"
HEALTHY_WITHIN_S = 600
"""It takes 24 s by itself, and five to ten times as long beside the other tests on two processors."""
SERVICES = ("kafka", "valkey", "projector", "gateway")
CONTAINERS = tuple(f"tallykeeper-{service}-1" for service in SERVICES)
KILL, HANG = "kill -9 {pid}", "kill -STOP $(pgrep -P {pid})"
"""`docker kill` is taken for a wish: the container would not start again."""
LOSSES: list[tuple[str, tuple[str, ...]]] = by_profile(
    short=[(KILL, SERVICES)],
    long=[(KILL, SERVICES), *((KILL, (service,)) for service in SERVICES), (HANG, ("gateway",))],
)


class State(NamedTuple):
    """A container's."""

    pid: str
    """Of its first process, as the second machine numbers it; 0 if there is none."""
    health: str


@dataclass(frozen=True)
class Compose:
    """`docker compose` of a copy of the project's files, with the images that there are."""

    machine: Machine
    images: dict[str, str]

    def __call__(self, *arguments: str, check: bool = True) -> str:
        file = f"--file={INSIDE}/context/deploy/compose.yaml"
        return self.machine.docker("compose", "--progress=quiet", file, *arguments, check=check, **self.images)

    def states(self) -> dict[str, State]:
        """Return each service's state, by one command: it is polled on a busy machine."""
        lines = self.machine.docker("inspect", "--format={{.State.Pid}} {{.State.Health.Status}}", *CONTAINERS)
        return {name: State(*line.split()) for name, line in zip(SERVICES, lines.splitlines(), strict=True)}

    def why_not_healthy(self) -> str:
        """Return what the containers' probes and services said last."""
        probes = self.machine.docker("inspect", "--format={{.Name}} {{json .State}}", *CONTAINERS)
        return f"{probes}\n{self('logs', '--tail=15', '--timestamps')}"


def comment_of(compose_file: Path) -> str:
    """Return the file's first comment as one line of shell for each command."""
    lines = (line.removeprefix("#") for line in compose_file.read_text().splitlines() if line.startswith("#"))
    return "\n".join(lines).replace("\\\n", " ")


@pytest.fixture(scope="module")
def compose(machine: Machine) -> Compose:
    context = machine.shared / "context"
    images.copy_context(context)
    (context / "deploy/secrets").mkdir(mode=0o700)
    for name in ("kafka", "valkey"):
        (context / f"deploy/secrets/{name}-password").write_text(secrets.token_hex(24))
    names = {"KAFKA_IMAGE": images.KAFKA, "VALKEY_IMAGE": images.VALKEY, "TALLY_IMAGE": images.SERVICE}
    found = Compose(machine, names)
    found("down", "--volumes")  # of a run that was interrupted
    return found


@pytest.fixture(scope="module")
async def client(compose: Compose) -> AsyncIterator[httpx.AsyncClient]:
    """A client with a key that the command in the file's comment made."""
    (command,) = re.findall(
        r"exec gateway (tally keys create .*)", comment_of(compose.machine.shared / "context/deploy/compose.yaml")
    )
    printed = compose("exec", "-T", "gateway", *command.split())
    headers = {"Authorization": f"Bearer {printed.strip().splitlines()[-1]}"}
    async with http_client(base_url=BASE_URL, headers=headers, timeout=30) as client:
        yield client


def test_everything_becomes_healthy_in_its_order(compose: Compose, row: Row) -> None:
    began = time.monotonic()
    compose("up", "--detach", "--no-build", "--wait")
    row("up, all healthy", f"{time.monotonic() - began:.0f} s")
    assert {state.health for state in compose.states().values()} == {"healthy"}
    assert "Exited (0)" in compose("ps", "--all", "topics", "--format={{.Status}}")


def test_no_password_is_in_a_container_s_description_or_in_a_process_s_arguments(compose: Compose) -> None:
    described = compose.machine.docker("inspect", *compose("ps", "--all", "--quiet").split())
    described += compose.machine.run("ps", "-eww", "-o", "args")
    for file in (compose.machine.shared / "context/deploy/secrets").iterdir():
        assert file.read_text().strip() not in described


def test_the_service_s_processes_can_write_nothing_but_their_data(compose: Compose) -> None:
    for service in ("gateway", "projector"):
        script = (
            "id -u; touch /app/x /x 2>&1 | grep -c Read-only; touch /tmp/x /objects/x && echo data; "
            "grep CapEff /proc/1/status"
        )
        printed = compose("exec", "-T", service, "sh", "-c", script).split()
        assert printed[:3] == ["10001", "2", "data"]
        assert int(printed[-1], 16) == 0


@pytest.mark.parametrize(("loss", "services"), LOSSES)
async def test_a_lost_container_starts_again_and_no_vote_is_lost(
    compose: Compose, client: httpx.AsyncClient, row: Row, loss: str, services: tuple[str, ...]
) -> None:
    before = compose.states()
    former = {service: before[service].pid for service in services}

    def all_again() -> bool:
        states = compose.states()
        return all(
            states[service].pid not in (pid, "0") and states[service].health == "healthy"
            for service, pid in former.items()
        )

    async with voting(client) as voters:
        compose.machine.run("sh", "-c", ";".join(loss.format(pid=pid) for pid in former.values()))
        began = time.monotonic()
        try:
            await eventually(all_again, HEALTHY_WITHIN_S, every_s=1)
        except AssertionError as error:
            error.add_note(compose.why_not_healthy())
            raise
        healthy_s = time.monotonic() - began
    row(
        f"{', '.join(services)}: `{loss}`",
        f"healthy after {healthy_s:.0f} s; {voters.total} votes accepted, {voters.total} counted",
    )


async def test_an_upgrade_loses_no_vote(compose: Compose, client: httpx.AsyncClient, row: Row) -> None:
    async with voting(client) as voters:
        began = time.monotonic()
        newer = Compose(compose.machine, compose.images | {"TALLY_IMAGE": images.NEXT})
        await asyncio.to_thread(newer, "up", "--detach", "--no-build", "--wait")
        took_s = time.monotonic() - began
    running = {name: newer("ps", name, "--format={{.Image}}").strip() for name in ("gateway", "projector")}
    assert running == dict.fromkeys(running, images.NEXT)
    row("upgrade to a second image", f"{took_s:.0f} s; {voters.total} votes accepted, {voters.total} counted")


def test_the_views_equal_the_log(compose: Compose, row: Row) -> None:
    compose("exec", "-T", "gateway", "tally", "verify")
    row("`tally verify`", "exit code 0")


def test_down_leaves_nothing(compose: Compose, row: Row) -> None:
    began = time.monotonic()
    compose("down", "--volumes")
    row("down", f"{time.monotonic() - began:.0f} s")
    assert compose.machine.docker("ps", "--all", "--quiet") == ""
    of_project = "--filter=label=com.docker.compose.project=tallykeeper"
    assert compose.machine.docker("volume", "ls", "--quiet", of_project) == ""
