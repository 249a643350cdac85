"""The stack of a campaign, by its topology."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from libs.deployment.deployment import Deployment
from libs.local_stack.settings import StackSettings
from libs.local_stack.startup_report import Silence
from libs.local_stack.supervisor import Supervisor
from services.cli import bootstrap
from services.cli.deployment_discovery import find_addresses
from tests.campaign.network import StackNetwork, open_stack_network
from tests.campaign.preload import Page, Preload, preloaded
from tests.support.deployments import FEW_PARTITIONS
from tests.support.stack_members import Members

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
    contest: str = ""
    """Key of a contest whose counts can be streamed."""
    untrue: Callable[[str], None] = print
    """Records an untrue answer."""
    doubt: Callable[[], None] = print
    """Records an answer 503, or a lost one."""
    checks: list[Callable[[], Awaitable[bool]]] = field(default_factory=list)
    """What must become true, each once, after the faults that left it here."""

    async def is_checked(self) -> bool:
        """Return whether all that faults left to check has become true."""
        self.checks = [check for check in self.checks if not await check()]
        return not self.checks

    def pids(self, names: Sequence[str]) -> list[int]:
        """Return the processes; 0 for one that is down."""
        return [self.stack.pids.get(name, 0) for name in names]

    def page(self, name: str) -> Page:
        """Return what a process shares with the campaign: its clock and its disk."""
        assert self.preload is not None
        return self.preload.page(name)

    def any_partition(self) -> int:
        return self.rng.randrange(FEW_PARTITIONS)

    @asynccontextmanager
    async def members(self) -> AsyncIterator[Members]:
        async with Deployment(find_addresses(self.stack.data_dir)) as deployment:
            yield Members(self.stack, deployment, self.network.addresses.of_proxies)


@asynccontextmanager
async def open_stage(topology: str, data_dir: Path, rng: Random) -> AsyncIterator[Stage]:
    """Start a stack of its own, whatever servers the environment names."""
    for name in ("TALLY_KAFKA_BOOTSTRAP_SERVERS", "TALLY_VALKEY_URL"):
        os.environ.pop(name, None)
    members = TOPOLOGIES[topology]
    settings = StackSettings(
        data_dir=data_dir, stack="native", partitions=FEW_PARTITIONS, stack_start_timeout_s=180, **members
    )
    async with (
        preloaded(data_dir.with_name("preload")) as preload,
        open_stack_network(data_dir, members) as network,
    ):
        stack = network.addresses.stack = Supervisor(
            settings, bootstrap, port=0, any_port=True, parts=network.parts, report=Silence()
        )
        async with stack:
            kinds = {kind: [name for name in stack.pids if kind_of(name) == kind] for kind in KINDS}
            yield Stage(stack, network, preload, rng, kinds)


def kind_of(name: str) -> str:
    return name.partition("-")[0]
