"""Supervises the servers and services on one machine, and restarts those that end or hang."""

import asyncio
import shlex
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol, Self

import httpx

from libs.deployment.settings import DeploymentAddresses
from libs.local_stack import errors, ports, stack_json
from libs.local_stack.child_process import WATCH_S, Process, Watched, end_reason, keep_running
from libs.local_stack.kafka import client_settings
from libs.local_stack.server_interface import Server
from libs.local_stack.servers import Addresses, Servers
from libs.local_stack.service_process import PARTS, ServiceProcess, plan_services, service_environment
from libs.local_stack.settings import StackSettings
from libs.local_stack.startup_report import Report
from libs.storage.private_files import own_directory
from libs.telemetry.redaction import revealed
from libs.web.server.tls import public_authorities

PROBE_S: Final = 30.0
"""Time that a process has for an answer, and between two probes. A gateway that 10,000 clients flooded, on a
machine with 35 runnable processes, answered after up to 20 s: it must not be restarted for that."""
UNANSWERED: Final = 6
"""Probes in a row without an answer after which a process is restarted: three minutes. They are counted, not
timed: a supervisor that is itself suspended asks again before it restarts."""


async def watch_liveness(
    process: Watched, url: str, restart: Callable[[], Awaitable[None]], probe_s: float = PROBE_S
) -> None:
    """Call `restart` whenever the process does not answer `url` any more.

    A process that has not answered since its start is left alone: it is starting, or has no such address.
    """
    pid, unanswered = process.pid, -1
    async with httpx.AsyncClient(verify=public_authorities(), timeout=probe_s, trust_env=False) as client:
        while True:
            began = asyncio.get_running_loop().time()
            is_alive = await _answers(client, url)
            if process.pid != pid:
                pid, unanswered = process.pid, -1
            elif is_alive:
                unanswered = 0
            elif unanswered >= 0:
                unanswered += 1
            if pid is not None and unanswered >= UNANSWERED:
                await restart()
            await asyncio.sleep(max(0.0, began + probe_s - asyncio.get_running_loop().time()))


async def _answers(client: httpx.AsyncClient, url: str) -> bool:
    """Return whether the process answers, with any status."""
    try:
        await client.get(url)
    except httpx.HTTPError:
        return False
    return True


ENDS_BEFORE_READY = 3


class Preparation(Protocol):
    """Prepares the servers before the services start, and provides API keys (`services.cli.bootstrap`)."""

    async def prepare(self, addresses: DeploymentAddresses, /) -> object:
        """Create topics and load functions; idempotent."""

    async def development_credentials(self, addresses: DeploymentAddresses, /) -> dict[str, str]:
        """Return the account and keys for development, the same in each run."""


class Supervisor:
    """Starts all processes in order, restarts those that end, maintains `stack.json`, and stops all in reverse.

    Services that do not answer `/livez` are restarted, too. Used by `tally up`, `tally demo` and tests. `parts`
    are the services to run. `waits`: services that are not ready in time stay, with `stack.json`, so that an
    operator can find the reason and remove it.
    """

    def __init__(
        self,
        settings: StackSettings,
        preparation: Preparation,
        *,
        port: int = 8080,
        any_port: bool = False,
        fresh: bool = False,
        parts: Sequence[ServiceProcess] = PARTS,
        report: Report | None = None,
        waits: bool = False,
        probe_s: float = PROBE_S,
    ) -> None:
        self._settings = settings
        self._waits = waits
        self._probe_s = probe_s
        self._preparation = preparation
        self._wished_port, self._any_port = port, any_port
        self._parts = parts
        self._report = report or Report()
        self._servers = Servers(settings, fresh=fresh, report=self._report)
        self._services: list[str] = []
        self._is_announced = False
        self._watched: dict[str, Watched] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._held: set[str] = set()
        self._ends: dict[str, dict[str, Any]] = {}
        self._last_pids: dict[str, int] = {}
        self._restarts: dict[str, int] = {}
        self._watches: list[asyncio.Task[None]] = []
        self.credentials: dict[str, str] = {}
        self.base_url = self.public_url = ""
        self.operations_url = ""
        self.metrics_urls: Mapping[str, str] = {}

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def data_dir(self) -> Path:
        return self._servers.data_dir

    @property
    def addresses(self) -> Addresses:
        return self._servers.addresses

    def server(self, name: str) -> Server:
        """Return a server of Kafka or Valkey by its name."""
        return self._servers.running[name]

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of the running processes, by name."""
        return {name: watched.pid for name, watched in self._watched.items() if watched.pid is not None}

    @property
    def stack(self) -> dict[str, Any]:
        """Contents of `stack.json`; a process that is down keeps its last pid there.

        `kafka_settings` are those of this topology that commands need, too; `ends` how often processes have ended
        unasked, and when (ms since 1970 UTC) and why they did last; `restarts` the times at which processes are
        started again that ended within seconds of their start.
        """
        self._last_pids |= self.pids
        place = self._place
        return {
            "base_url": self.base_url,
            "public_url": self.public_url,
            "legacy_base_url": f"{self.base_url}/legacy",
            "legacy_test_base_url": f"{self.base_url}/legacy-test",
            "media_url": f"{self.base_url}/media",
            "dashboard_url": f"{self.base_url}/dashboard",
            "operations_url": self.operations_url,
            "metrics_urls": dict(self.metrics_urls),
            "kafka": place.kafka,
            "valkey": place.valkey,
            "namespace": place.namespace,
            "partitions": place.partitions,
            "storage_url": place.storage_url,
            **place.description,
            "pids": dict(self._last_pids),
            "ends": dict(self._ends),
            "restarts": dict(self._restarts),
            **self.credentials,
        }

    async def start(self) -> dict[str, Any]:
        """Start all, wait for `/readyz` and the development credentials, and return `stack`.

        Raises `StackError`, unless it `waits` also after `stack_start_timeout_s`; after any error, also a
        cancellation, nothing is left running.
        """
        try:
            await self._start()
        except BaseException as error:
            await self.stop()
            if isinstance(error, OSError) and errors.is_about_files(error):
                raise errors.from_os_error(error, self.data_dir) from error
            raise
        return self.stack

    async def stop(self) -> None:
        """Drain the services, remove `stack.json`, and stop the servers; idempotent."""
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)
        self._watches.clear()
        for name in reversed(self._services):
            await self._watched[name].stop()
        if self._servers.is_open:
            stack_json.remove(self.data_dir)
        await self._servers.stop()

    async def kill(self, name: str, *, restart: bool = True) -> None:
        """Kill a service or server by SIGKILL; it is restarted at once, or stays down until `restart`."""
        if not restart:
            self._held.add(name)
        await self._watched[name].kill()

    async def restart(self, name: str) -> None:
        """Stop a service or server, if it runs, and start it."""
        self._held.add(name)
        async with self._locks[name]:
            await self._watched[name].stop()
            await self._start_again(name)
        self._held.discard(name)

    async def _start(self) -> None:
        self._choose_port()  # a port in use is an error before anything starts
        await self._servers.start()
        stack_json.remove(self.data_dir)
        given = self._settings.storage_url
        self._place = DeploymentAddresses(
            self.addresses.kafka,
            self.addresses.valkey,
            self._settings.namespace,
            self._settings.partitions,
            self._local_storage() if given is None else revealed(given),
            {"kafka_settings": client_settings(self._servers.topology)},
        )
        await self._preparation.prepare(self._place)
        # only now: another process could take a free one while the servers start
        port = self._choose_port()
        plan = plan_services(self._settings, self._parts, self.data_dir, port)
        self.base_url, self.metrics_urls = plan.base_url, plan.metrics_urls
        self.public_url = self._public_url(port)
        self.operations_url = plan.operations_urls[0]
        environment, reaper = service_environment(self._place, self.data_dir), self._servers.reaper
        environment |= {"TALLY_DRAIN_DELAY_S": "0", "PYTHONUNBUFFERED": "1"}
        if self._settings.lan:  # links to walls that are made on this machine open on others
            environment["TALLY_PUBLIC_URL"] = self.public_url
        self._watched = dict(self._servers.running)
        for part, own in plan.processes:
            running = self._watched[part.name] = Process(
                part.name,
                part.command,
                reaper=reaper,
                log=self.data_dir / "logs" / f"{part.name}.log",
                environment={**environment, **own},
                grace_s=part.drain_s,
            )
            self._services.append(part.name)
            await running.start()
        for name, watched in self._watched.items():
            self._locks[name] = asyncio.Lock()
            if watched.pid is not None or name in self._services:  # a service may have ended by now
                self._watches.append(asyncio.create_task(self._watch(name), name=f"watch {name}"))
        for name, metrics_url in self.metrics_urls.items():
            self._watches.append(asyncio.create_task(self._watch_liveness(name, metrics_url)))
        await asyncio.gather(*map(self._until_ready, plan.gateway_urls))
        self.credentials = await self._preparation.development_credentials(self._place)
        self._is_announced = True
        self._announce()

    def _choose_port(self) -> int:
        port = self._wished_port
        if port != 0 and ports.is_free(port, self._settings.host):
            return port
        if port == 0 or self._any_port:
            return ports.free_ports(1)[0]
        raise errors.port_in_use(port, "free it, or choose another with --port, or any free one with --any-port")

    def _public_url(self, port: int) -> str:
        """Return the origin for browsers. Raises `StackError` on a LAN without an address."""
        if self._settings.public_url or not self._settings.lan:
            return self._settings.public_url or self.base_url
        address = ports.lan_address()
        if address is None:
            raise errors.no_lan_address()
        return stack_json.base_url(address, port)

    def _local_storage(self) -> str:
        objects = self.data_dir / "objects"
        with own_directory(objects):
            return objects.as_uri()

    async def _until_ready(self, base_url: str) -> None:
        deadline = time.monotonic() + self._settings.stack_start_timeout_s
        async with httpx.AsyncClient(
            base_url=base_url, verify=public_authorities(), timeout=2.0, trust_env=False
        ) as client:
            while True:
                with suppress(httpx.HTTPError):
                    if (await client.get("/readyz")).status_code == httpx.codes.OK:
                        return
                often = (name for name, ends in self._ends.items() if ends["times"] >= ENDS_BEFORE_READY)
                ending = next(often, None)
                if ending is not None or time.monotonic() > deadline:
                    self._not_ready(ending)
                await asyncio.sleep(WATCH_S)

    def _not_ready(self, ending: str | None) -> None:
        """Raise `StackError`, or show an operator where to look; `ending`: a service that ends at once."""
        name, log = "tally", self.data_dir / "logs"
        reason = f"/readyz not 200 in {self._settings.stack_start_timeout_s:g} s"
        if ending is not None:
            name, log, reason = ending, log / f"{ending}.log", "it ends at once"
        if not self._waits:
            raise errors.start_failed(name, log, reason)
        if not self._is_announced:
            options = f"--data-dir {shlex.quote(str(self.data_dir.absolute()))}"
            self._report.line(
                f"{name} is not ready ({reason}): `tally doctor {options}` says why; see also {log}. "
                "Ctrl-C stops it."
            )
            self._is_announced = True
            self._announce()

    async def _watch(self, name: str) -> None:
        """Restart the process whenever it ends: at once, unless that was within seconds of its start."""

        def is_down() -> bool:
            return name not in self._held and self._watched[name].pid is None

        async def start(delay_s: float) -> None:
            reason = end_reason(self._watched[name].exit_code)
            times = self._ends.get(name, {"times": 0})["times"] + 1
            self._ends[name] = {"times": times, "at": round(time.time() * 1000), "reason": reason}
            self._report.line(f"{name} has ended ({reason}); starting it again in {delay_s:g} s")
            if delay_s:
                self._restarts[name] = round((time.time() + delay_s) * 1000)
            self._announce()
            await asyncio.sleep(delay_s)
            async with self._locks[name]:
                if is_down():
                    with suppress(errors.StackError, OSError):
                        await self._start_again(name)

        await keep_running(start, is_down)

    async def _watch_liveness(self, name: str, metrics_url: str) -> None:
        """Kill the service whenever it hangs: `_watch` starts it again."""

        async def restart() -> None:
            if name not in self._held:
                self._report.line(f"{name} does not answer; ending it")
                await self._watched[name].kill()

        url = metrics_url.removesuffix("/metrics") + "/livez"
        await watch_liveness(self._watched[name], url, restart, self._probe_s)

    async def _start_again(self, name: str) -> None:
        try:
            await self._watched[name].start()
        except (errors.StackError, OSError) as error:
            self._report.line(f"{name} did not start: {error}")
            raise
        self._report.line(f"{name} runs again")
        self._restarts.pop(name, None)
        self._announce()

    def _announce(self) -> None:
        """Update `stack.json`, once the start has written it."""
        if self._is_announced:
            stack_json.write(self.data_dir, self.stack)
