"""The stack of a campaign, by its topology."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, Final

import psutil
from redis.exceptions import RedisError

from libs.deployment.deployment import Deployment
from libs.local_stack.errors import StackError
from libs.local_stack.service_process import ServiceProcess
from libs.local_stack.settings import StackSettings
from libs.local_stack.startup_report import Silence
from libs.local_stack.supervisor import Supervisor
from libs.tally.errors import TallyError
from libs.views.valkey import function_libraries
from services.cli import bootstrap
from services.cli.deployment_discovery import find_addresses
from tests.campaign.clients import Crowd
from tests.campaign.evidence import needed
from tests.campaign.network import StackNetwork, open_stack_network
from tests.campaign.preload import Page, Preload, preloaded
from tests.support.clients.stack_keys import new_key
from tests.support.servers.deployments import FEW_PARTITIONS
from tests.support.servers.stack_members import Members
from tests.support.servers.versions import changed_copy

TOPOLOGIES: Final[Mapping[str, Mapping[str, Any]]] = {
    "single": {},
    "cluster": {
        "brokers": 3,
        "valkey_shards": 3,
        "valkey_replicas": 2,
        "gateways": 2,
        "projectors": 2,
        "kafka_heap_mb": 256,
    },
}

STARTS: Final = 5
"""Attempts to start a server again on a busy machine."""
NOT_FOUND: Final = (TallyError, RedisError, OSError, AssertionError, ValueError)
"""Errors of servers that are asked for members while some are away."""
KINDS: Final = ("gateway", "projector", "kafka", "valkey")


@dataclass
class Stage:
    """A running stack, and what its faults need to know of it."""

    stack: Supervisor
    network: StackNetwork
    preload: Preload | None
    rng: Random
    """Chooses members when a fault begins."""
    kinds: Mapping[str, Sequence[str]]
    """Names of all processes by their kinds."""
    noisy_key: str
    """The API key of an account that disturbs the others, made before any fault."""
    version: Path
    """Link to the sources of the Valkey functions of the processes that start from now on."""
    is_cluster: bool = False
    crowd: Crowd = field(init=False)
    """Those who vote, once there are some; some faults are clients, too."""
    checks: list[Callable[[], Awaitable[bool]]] = field(default_factory=list)
    """What must become true, each once, after the faults that left it here."""

    async def is_checked(self) -> bool:
        """Return whether all that faults left to check has become true."""
        self.checks = [check for check in self.checks if not await check()]
        return not self.checks

    def change_version(self) -> None:
        """Let the processes that start from now on be of another version, whose functions have other names."""
        former = self.version.resolve()
        sources = changed_copy(former, self.version.with_name(f"after {former.parent.name}"), [])
        replace_link(self.version, sources)

    async def start(self, name: str) -> None:
        """Start a process, also on a machine so busy that it takes several attempts."""
        for attempt in range(STARTS):
            try:
                await self.stack.restart(name)
                return
            except StackError:
                if attempt == STARTS - 1:
                    raise

    def pids(self, names: Sequence[str]) -> list[int]:
        """Return the processes; 0 for one that is down."""
        return [self.stack.pids.get(name, 0) for name in names]

    def page(self, name: str) -> Page:
        """Return what a process shares with the campaign: its clock and its disk."""
        assert self.preload is not None
        return self.preload.page(name)

    def any_partition(self) -> int:
        return self.rng.randrange(FEW_PARTITIONS)

    async def leader(self) -> str:
        """Return the broker that leads one of the votes' partitions."""
        async with self.found_members() as members:
            return await members.leader(self.any_partition())

    async def shard(self) -> list[str]:
        """Return all servers of a shard that has a partition of the votes, the primary first."""
        async with self.found_members() as members:
            return await members.shard(members.slot(self.any_partition()))

    async def controller(self) -> str:
        """Return the broker whose controller is active."""
        async with self.found_members() as members:
            return await members.controller()

    async def shards(self) -> dict[int, dict[str, int]]:
        """Return the servers of Valkey that have each partition of the votes; none if they cannot be read."""
        try:
            async with self.members() as members:
                names = {each: await members.shard(members.slot(each)) for each in range(FEW_PARTITIONS)}
        except NOT_FOUND:
            return {}
        return {each: dict(zip(servers, self.pids(servers), strict=True)) for each, servers in names.items()}

    def is_lost(self, name: str, pid: int) -> bool:
        """Return whether the process is stopped or has ended since."""
        try:
            return self.pids([name]) != [pid] or psutil.Process(pid).status() == psutil.STATUS_STOPPED
        except psutil.NoSuchProcess:
            return True

    @asynccontextmanager
    async def members(self) -> AsyncIterator[Members]:
        async with Deployment(find_addresses(self.stack.data_dir)) as deployment:
            yield Members(self.stack, deployment, self.network.addresses.of_proxies)

    @asynccontextmanager
    async def found_members(self) -> AsyncIterator[Members]:
        """Let a fault whose members cannot be found not happen: an earlier one may still last."""
        with needed(*NOT_FOUND):
            async with self.members() as members:
                yield members


@asynccontextmanager
async def open_stage(topology: str, data_dir: Path, rng: Random) -> AsyncIterator[Stage]:
    """Start a stack of its own, whatever servers the environment names."""
    for name in ("TALLY_KAFKA_BOOTSTRAP_SERVERS", "TALLY_VALKEY_URL"):
        os.environ.pop(name, None)
    members = TOPOLOGIES[topology]
    settings = StackSettings(
        data_dir=data_dir, stack="native", partitions=FEW_PARTITIONS, stack_start_timeout_s=180, **members
    )
    version = data_dir.with_name("version")
    replace_link(version, function_libraries.SOURCES)
    async with (
        preloaded(data_dir.with_name("preload")) as preload,
        open_stack_network(data_dir, members) as network,
    ):
        stack = network.addresses.stack = Supervisor(
            settings,
            bootstrap,
            port=0,
            any_port=True,
            parts=[with_version(part, version) for part in network.parts],
            report=Silence(),
        )
        async with stack:
            kinds = {kind: [name for name in stack.pids if kind_of(name) == kind] for kind in KINDS}
            noisy = await new_key(stack, account="noisy")
            yield Stage(stack, network, preload, rng, kinds, noisy.api_key, version, topology == "cluster")


def kind_of(name: str) -> str:
    return name.partition("-")[0]


def replace_link(link: Path, target: Path) -> None:
    """Let a link lead elsewhere, in one step."""
    new = link.with_name("new version")
    new.symlink_to(target)
    new.rename(link)


def with_version(part: ServiceProcess, version: Path) -> ServiceProcess:
    """Return the service with the Valkey functions to which `version` leads when it starts."""
    *before, _, _, module = part.command  # python -P -m module
    return replace(part, command=(*before, "-m", "tests.support.servers.run_version", str(version), module))
