"""Servers in Docker containers, used if no native server can run.

`.ci/containers` runs them with Docker: the real servers, in stand-ins for the two images.
testcontainers' own reaper (Ryuk), which was not tried, removes the containers when this process is killed. The
data is in Docker volumes named after the data directory's id: `--fresh` creates new ones; `docker volume prune -a`
removes the old.
"""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import docker  # type: ignore[import-untyped]
from docker.errors import DockerException  # type: ignore[import-untyped]
from testcontainers.core.container import DockerContainer

from libs.concurrency.tasks import becomes_true
from libs.local_stack import errors, kafka, valkey
from libs.local_stack.ports import LOOPBACK

KAFKA_DATA: Final = Path("/var/lib/kafka/data")
CONTROLLER_PORT: Final = 9093


def docker_answers() -> bool:
    try:
        client = docker.from_env(timeout=5)
        try:
            return bool(client.ping())
        finally:
            client.close()
    except (DockerException, OSError):
        return False


class ContainerServer:
    """Container with a fixed port and volume, so that address and data persist."""

    pid = exit_code = None

    def __init__(
        self,
        name: str,
        address: str,
        make: Callable[[], DockerContainer],
        answers: Callable[[str], Coroutine[Any, Any, bool]],
        timeout_s: float,
    ) -> None:
        self.name = name
        self.address = address
        self._make = make
        self._answers = answers
        self._timeout_s = timeout_s
        self._container: DockerContainer | None = None

    async def start(self) -> None:
        """Start the container and wait until the server responds; the first start on a machine pulls the image."""
        self._container = self._make()
        try:
            await asyncio.to_thread(self._container.start)
        except (DockerException, OSError) as error:
            raise errors.start_failed(self.name, "docker logs", str(error).splitlines()[0]) from error
        if not await becomes_true(lambda: self._answers(self.address), self._timeout_s):
            await self.stop()
            raise errors.start_failed(self.name, "docker logs", f"no answer in {self._timeout_s:g} s")

    async def stop(self) -> None:
        await self._end("stop")

    async def kill(self) -> None:
        await self._end("kill")

    async def _end(self, how: str) -> None:
        container, self._container = self._container, None
        if container is not None:
            wrapped: Any = container.get_wrapped_container()
            await asyncio.to_thread(getattr(wrapped, how))
            await asyncio.to_thread(container.stop)


def _on_loopback(container: DockerContainer, port: int, host_port: int) -> DockerContainer:
    """Publishes a port on the loopback interface alone; Docker's default is all interfaces."""
    container.ports[str(port)] = (LOOPBACK, host_port)  # type: ignore[assignment]  # Docker takes pairs
    return container


def container_kafka(image: str, port: int, volume: str, timeout_s: float, password: str) -> ContainerServer:
    """Return a broker that accepts one user, by password: its port is open to every process of the machine."""
    environment = kafka_environment(port, password)

    def make() -> DockerContainer:
        container = _on_loopback(DockerContainer(image), port, port)
        for name, value in environment.items():
            container = container.with_env(name, value)
        return container.with_volume_mapping(f"{volume}-kafka", str(KAFKA_DATA), "rw")

    address = kafka.address_with(password, f"{LOOPBACK}:{port}")
    return ContainerServer("kafka", address, make, kafka.answers, timeout_s)


def kafka_environment(port: int, password: str) -> dict[str, str]:
    """Return the image's variables; it reads `KAFKA_X_Y` as the property `x.y`."""
    member = kafka.ClusterMember(1, "", {1: CONTROLLER_PORT})
    listeners = f"CLIENT://:{port},CONTROLLER://{LOOPBACK}:{CONTROLLER_PORT}"
    properties = kafka.broker_properties(member, listeners, f"{LOOPBACK}:{port}", KAFKA_DATA, password)
    variables = {f"KAFKA_{name.upper().replace('.', '_')}": str(value) for name, value in properties.items()}
    return variables | {"KAFKA_OPTS": " ".join(kafka.LANGUAGE)}


def container_valkey(
    image: str, port: int, volume: str, timeout_s: float, fsync: str, password: str
) -> ContainerServer:
    options = valkey.server_options(fsync, password).items()
    command = ["valkey-server", *(part for name, value in options for part in (f"--{name}", str(value)))]

    def make() -> DockerContainer:
        container = _on_loopback(DockerContainer(image).with_command(command), 6379, port)
        return container.with_volume_mapping(f"{volume}-valkey", "/data", "rw")

    return ContainerServer(
        "valkey", f"redis://default:{password}@{LOOPBACK}:{port}/0", make, valkey.answers, timeout_s
    )
