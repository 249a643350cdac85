"""The faults: a row each, with the members that it hits, how it happens, and how it is shown to have happened."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import Error, copytree, rmtree
from typing import Final

import psutil

from tests.campaign.clock import CLOCKS, clock_off
from tests.campaign.disk import DISKS, STORE_DISKS, directory_of, disk_of, store_of
from tests.campaign.evidence import Choose, expect, services
from tests.campaign.links import Rules, network_faults
from tests.campaign.memory import cgroup_full, has_cgroups, memory_short, valkey_full
from tests.campaign.power import power_cut
from tests.campaign.preload import obstacle
from tests.campaign.stage import KINDS, Stage
from tests.campaign.storms import DEAF, IDLE, SLOW, Request, deaf_stream, idle, slow_body, storm
from tests.support.clients.noisy_account import noise
from tests.support.clients.stack_keys import development_client
from tests.support.eventually import eventually

SET_BACK_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Fault:
    """While the context is open, the fault lasts. It raises `DidNotBite` unless the fault happened.

    `hits`: kinds of members; faults that come together hit different ones, and the status names one of them.
    `lasts`: false if it ends by itself. `is_shown`: the status must name it if it lasts for long enough.
    """

    happen: Callable[[Stage], AbstractAsyncContextManager[None]]
    hits: Sequence[str] = ()
    lasts: bool = True
    is_shown: bool = False


def named(*names: str) -> Choose:
    async def choose(_: Stage) -> Sequence[str]:
        return names

    return choose


@asynccontextmanager
async def killed(choose: Choose, stage: Stage) -> AsyncIterator[None]:
    """Kill processes, which the supervisor starts again at once."""
    names = await choose(stage)
    before = stage.pids(names)
    await asyncio.gather(*(stage.stack.kill(name) for name in names))
    yield
    await eventually(lambda: not {*stage.pids(names)} & {*before, 0})


@asynccontextmanager
async def restarted(choose: Choose, stage: Stage) -> AsyncIterator[None]:
    """Stop processes by SIGTERM, which drains them, and start them, one after the other."""
    names = await choose(stage)
    before = stage.pids(names)
    for name in names:
        await stage.start(name)
    yield
    expect(not {*stage.pids(names)} & {*before, 0}, f"{names} still have the processes {before}")


@asynccontextmanager
async def lost(choose: Choose, stage: Stage) -> AsyncIterator[None]:
    """Kill processes, which stay down."""
    names = await choose(stage)
    before = stage.pids(names)
    await asyncio.gather(*(stage.stack.kill(name, restart=False) for name in names))
    try:
        yield
        expect(all(before) and not any(map(psutil.pid_exists, before)), f"{names} are not down")
    finally:
        await asyncio.gather(*(stage.start(name) for name in names))


@asynccontextmanager
async def frozen(choose: Choose, stage: Stage) -> AsyncIterator[None]:
    """Stop processes by SIGSTOP: they take connections and bytes, and answer nothing."""
    names = await choose(stage)
    pids = stage.pids(names)
    expect(all(pids), f"{names} are down already")
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
        states = {psutil.Process(pid).status() for pid in pids}
        expect(states == {psutil.STATUS_STOPPED}, f"{names} are {states}")
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@asynccontextmanager
async def emptied(choose: Choose, stage: Stage) -> AsyncIterator[None]:
    """Kill servers of Valkey and delete their data: their views are folded again from the log."""
    names = await choose(stage)
    async with lost(named(*names), stage):
        for name in names:
            directory = directory_of(stage, name)
            expect(any(directory.iterdir()), f"{directory} is empty before")
            rmtree(directory)
        yield


@asynccontextmanager
async def set_back(choose: Choose, stage: Stage) -> AsyncIterator[None]:
    """Kill servers of Valkey and start them with data of some seconds before: their last writes are lost."""
    names = await choose(stage)
    folders = [directory_of(stage, name).parent for name in names]
    for folder in folders:
        await eventually(partial(_is_copied, folder))
    await asyncio.sleep(SET_BACK_S)
    async with lost(named(*names), stage):
        for folder in folders:
            rmtree(folder / "appendonlydir")
            (folder / "before").rename(folder / "appendonlydir")
        yield


def _is_copied(folder: Path) -> bool:
    """Copy a server's data, and return whether it was not rewritten meanwhile."""
    manifest = folder / "appendonlydir" / "appendonly.aof.manifest"
    before = manifest.read_bytes()
    rmtree(folder / "before", ignore_errors=True)
    try:
        copytree(folder / "appendonlydir", folder / "before")
    except Error:
        return False
    return manifest.read_bytes() == before


@asynccontextmanager
async def upgraded(choose: Choose, stage: Stage) -> AsyncIterator[None]:
    """Restart processes one after the other as another version."""
    stage.change_version()
    async with restarted(choose, stage):
        yield


@asynccontextmanager
async def disturbed(choose: Rules, stage: Stage) -> AsyncIterator[None]:
    """Disturb the network between processes."""
    rules = await choose(stage)
    with stage.network.proxies.disturbed(*rules):
        yield
        expect(any(rule.bit for rule in rules), f"no bytes or connections from {rules[0].senders} were hit")


@asynccontextmanager
async def noisy_neighbour(stage: Stage) -> AsyncIterator[None]:
    """Let another account do the worst that it may, beside the voters."""
    stack = stage.stack.stack | {"api_key": stage.noisy_key}
    async with development_client(stack) as client, noise(client) as account:
        yield
        # in the same window as an earlier noise, its rate of bytes may be used up
        done = account.statuses[201] + account.statuses[429]
        expect(done > 0, f"the noisy account wrote nothing: {account.statuses}")


@asynccontextmanager
async def stormed(connections: int, request: Request, stage: Stage) -> AsyncIterator[None]:
    async with storm(connections, request, stage) as opened:
        expect(opened == connections, f"only {opened} connections were opened")
        yield


async def everyone(stage: Stage) -> list[str]:
    return list(stage.stack.pids)


async def a_leader(stage: Stage) -> list[str]:
    return [await stage.leader()]


async def the_controller(stage: Stage) -> list[str]:
    return [await stage.controller()]


async def two_brokers(stage: Stage) -> list[str]:
    """Return the leader of a partition and another broker: no majority is left."""
    leader = await stage.leader()
    return [leader, *(name for name in sorted(stage.kinds["kafka"]) if name != leader)][:2]


async def a_primary(stage: Stage) -> list[str]:
    return (await stage.shard())[:1]


async def a_replica(stage: Stage) -> list[str]:
    return (await stage.shard())[1:2]


@dataclass(frozen=True, slots=True)
class Target:
    """Processes that a fault may hit, and their kinds."""

    name: str
    choose: Choose
    hits: Sequence[str]


SINGLE: Final = [Target(name, named(name), [name]) for name in KINDS]
CLUSTER: Final = [
    Target("a gateway", named("gateway-1"), ["gateway"]),
    Target("a projector", named("projector-1"), ["projector"]),
    Target("a leader", a_leader, ["kafka"]),
    Target("the controller", the_controller, ["kafka"]),
    Target("a primary", a_primary, ["valkey"]),
    Target("a replica", a_replica, ["valkey"]),
]
A_SHARD: Final = Target("a shard", Stage.shard, ["valkey"])
SEVERAL: Final = {
    "single": [Target("all", named(*KINDS), KINDS)],
    "cluster": [Target("two brokers", two_brokers, ["kafka"]), A_SHARD],
}
ALL: Final = Target("all", everyone, KINDS)
CUT: Final = {
    "single": [*(one for one in SINGLE if one.name in ("kafka", "valkey")), ALL],
    "cluster": [],
}
"""Machines that lose their power. Not a whole cluster yet: flushes of commands are not noted, so
a certificate that `seal` had written was torn."""
VIEWS: Final = {"single": Target("valkey", named("valkey"), ["valkey"]), "cluster": A_SHARD}
STORMS: Final = {
    "idle connections": (IDLE, idle),
    "slow bodies": (SLOW, slow_body),
    "deaf streams": (DEAF, deaf_stream),
}


def faults_of(topology: str) -> dict[str, Fault]:
    """Return the faults by their names."""
    members = SINGLE if topology == "single" else CLUSTER
    views = VIEWS[topology]
    found = {
        f"empty {views.name}": Fault(partial(emptied, views.choose), views.hits, is_shown=True),
        f"set back {views.name}": Fault(partial(set_back, views.choose), views.hits, is_shown=True),
        "roll": Fault(partial(restarted, everyone), KINDS, lasts=False),
        "upgrade": Fault(partial(upgraded, services), ["gateway", "projector"], lasts=False),
    }
    for one in members:
        found[f"kill {one.name}"] = Fault(partial(killed, one.choose), one.hits, lasts=False)
        found[f"restart {one.name}"] = Fault(partial(restarted, one.choose), one.hits, lasts=False)
    for one in (*members, *SEVERAL[topology]):
        found[f"lose {one.name}"] = Fault(partial(lost, one.choose), one.hits, is_shown=True)
        found[f"freeze {one.name}"] = Fault(partial(frozen, one.choose), one.hits, is_shown=True)
    for name, (rules, hits) in network_faults(topology).items():
        found[name] = Fault(partial(disturbed, rules), hits)
    for name, (connections, request) in STORMS.items():
        found[name] = Fault(partial(stormed, connections, request), ["clients"])
    found["noisy account"] = Fault(noisy_neighbour, ["clients"])
    return found | _environment(topology, members)


def _environment(topology: str, members: Sequence[Target]) -> dict[str, Fault]:
    """Return the faults of clocks, disks and memory that this machine can have (`left_out`)."""
    found: dict[str, Fault] = {}
    for one in members:
        [kind] = one.hits
        if not obstacle():
            for name, offsets_s in CLOCKS.items():
                found[f"clock {name} {one.name}"] = Fault(partial(clock_off, one.choose, offsets_s), ["clock"])
            for name, disk in DISKS.items() if kind in ("kafka", "valkey") else ():
                found[f"disk {name} {one.name}"] = Fault(partial(disk_of, one.choose, disk), one.hits)
        if kind == "valkey":
            found[f"memory full {one.name}"] = Fault(partial(valkey_full, one.choose), one.hits)
        elif kind != "kafka":
            if not obstacle():
                found[f"memory short {one.name}"] = Fault(partial(memory_short, one.choose), one.hits)
            if has_cgroups():
                found[f"memory full {one.name}"] = Fault(partial(cgroup_full, one.choose), one.hits)
    if not obstacle():
        for one in CUT[topology]:
            found[f"power {one.name}"] = Fault(partial(power_cut, one.choose), one.hits, is_shown=True)
        for name, disk in STORE_DISKS.items():
            found[f"disk {name} objects"] = Fault(partial(store_of, disk), ["objects"])
    return found


def left_out() -> list[str]:
    """Return why this machine cannot have some faults."""
    cgroups = "" if has_cgroups() else "services at the limit of their cgroup: needs root and version 1"
    return [reason for reason in (obstacle(), cgroups) if reason]
