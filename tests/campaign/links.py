"""The faults of the network: links between processes, and disturbances, each of which is a list of rules."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from tests.campaign.stage import Stage
from tests.support.network import Break, Pace, Rule, delayed, held, lossy, slow

DELAY_S: Final = 1.0
LOST: Final = 0.3
"""Share of packets."""
SLOW_BYTES_PER_S: Final = 8_000

Names = Sequence[str]
Ends = tuple[Names, Names]
Disturb = Callable[[Names, Names, Random], list[Rule]]
"""Returns the rules between processes at the left, which send requests, and at the right, which reply."""


def _both(happens: Pace | Break) -> Disturb:
    return lambda left, right, _: [Rule(left, right, happens), Rule(right, left, happens)]


def _requests(happens: Pace | Break) -> Disturb:
    return lambda left, right, _: [Rule(left, right, happens)]


def _replies(happens: Pace | Break) -> Disturb:
    return lambda left, right, _: [Rule(right, left, happens)]


def _lossy(left: Names, right: Names, rng: Random) -> list[Rule]:
    pace = lossy(LOST, rng)
    return [Rule(left, right, pace), Rule(right, left, pace)]


def _reset(left: Names, right: Names, rng: Random) -> list[Rule]:
    return [Rule(right, left, Break.RESET, rng=rng)]


PARTITIONS: Final[Mapping[str, Disturb]] = {
    "cut": _both(Break.CUT),
    "freeze": _both(held),
    "lose requests": _requests(held),
    "lose replies": _replies(held),
}
DISTURBANCES: Final[Mapping[str, Disturb]] = {
    **PARTITIONS,
    "delay": _both(delayed(DELAY_S)),
    "slow down": _both(slow(SLOW_BYTES_PER_S)),
    "lose packets": _lossy,
    "reset": _reset,
    "half-open": _requests(Break.HALF_OPEN),
    "half-open replies": _replies(Break.HALF_OPEN),
}


@dataclass(frozen=True)
class Link:
    """Processes between which the network is disturbed, chosen when it begins; `hits` are their kinds."""

    ends: Callable[[Stage], Awaitable[Ends]]
    hits: Sequence[str]


def _kinds(left: str, right: str) -> Link:
    """Return the link between all processes of two kinds."""

    async def ends(stage: Stage) -> Ends:
        return stage.kinds[left], stage.kinds[right]

    return Link(ends, [left, right])


def _to_leader(kind: str) -> Link:
    async def ends(stage: Stage) -> Ends:
        return stage.kinds[kind], [await _leader(stage)]

    return Link(ends, [kind, "kafka"])


def _to_primary(kind: str) -> Link:
    async def ends(stage: Stage) -> Ends:
        return stage.kinds[kind], (await _shard(stage))[:1]

    return Link(ends, [kind, "valkey"])


async def _brokers_and_leader(stage: Stage) -> Ends:
    leader = await _leader(stage)
    return [name for name in stage.kinds["kafka"] if name != leader], [leader]


async def _replicas_and_primary(stage: Stage) -> Ends:
    primary, *replicas = await _shard(stage)
    return replicas, [primary]


async def _leader(stage: Stage) -> str:
    async with stage.members() as members:
        return await members.leader(stage.any_partition())


async def _shard(stage: Stage) -> list[str]:
    async with stage.members() as members:
        return await members.shard(members.slot(stage.any_partition()))


LINKS: Final[Mapping[str, Mapping[str, Link]]] = {
    "single": {
        f"{client}-{server}": _kinds(client, server)
        for client in ("gateway", "projector")
        for server in ("kafka", "valkey")
    },
    "cluster": {
        "gateway-kafka": _kinds("gateway", "kafka"),
        "projector-kafka": _kinds("projector", "kafka"),
        "gateway-leader": _to_leader("gateway"),
        "projector-leader": _to_leader("projector"),
        "gateway-primary": _to_primary("gateway"),
        "projector-primary": _to_primary("projector"),
        "brokers-leader": Link(_brokers_and_leader, ["kafka"]),
        "replicas-primary": Link(_replicas_and_primary, ["valkey"]),
    },
}


async def _disturbed(link: Link, disturb: Disturb, stage: Stage) -> list[Rule]:
    left, right = await link.ends(stage)
    return disturb(left, right, Random(stage.rng.random()))


async def _cut_off(with_projectors: bool, stage: Stage) -> list[Rule]:
    """A primary that reaches gateways, but no replica (and no projector), and that no other server hears."""
    primary, *replicas = await _shard(stage)
    unreached = [*replicas, *(stage.kinds["projector"] if with_projectors else ())]
    others = [name for name in stage.kinds["valkey"] if name not in (primary, *replicas)]
    return [
        Rule([primary], unreached, held),
        Rule(unreached, [primary], held),
        Rule([primary], others, held),
    ]


@dataclass(frozen=True)
class NetworkFault:
    rules: Callable[[Stage], Awaitable[list[Rule]]]
    hits: Sequence[str]


def network_faults(topology: str) -> dict[str, NetworkFault]:
    """Return the faults by their names."""
    found = {
        f"{name} {of}": NetworkFault(partial(_disturbed, link, disturb), link.hits)
        for of, link in LINKS[topology].items()
        for name, disturb in DISTURBANCES.items()
    }
    if topology == "cluster":
        found["cut off a primary"] = NetworkFault(partial(_cut_off, False), ["valkey"])
        found["cut off a primary from projectors"] = NetworkFault(partial(_cut_off, True), ["valkey", "projector"])
    return found
