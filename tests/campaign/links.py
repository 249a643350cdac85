"""The faults of the network: links between processes, and disturbances, each of which is a list of rules."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from tests.campaign.stage import Stage
from tests.support.servers.network import Break, Pace, Rule, delayed, held, lossy, slow

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


DISTURBANCES: Final[Mapping[str, Disturb]] = {
    "cut": _both(Break.CUT),
    "freeze": _both(held),
    "lose requests": _requests(held),
    "lose replies": _replies(held),
    "delay": _both(delayed(DELAY_S)),
    "slow down": _both(slow(SLOW_BYTES_PER_S)),
    "lose packets": lambda left, right, rng: _both(lossy(LOST, rng))(left, right, rng),
    "reset": lambda left, right, rng: [Rule(right, left, Break.RESET, rng=rng)],
    "half-open": _requests(Break.HALF_OPEN),
    "half-open replies": _replies(Break.HALF_OPEN),
}


@dataclass(frozen=True)
class Link:
    """Processes between which the network is disturbed, chosen when it begins; `hits` are their kinds."""

    ends: Callable[[Stage], Awaitable[Ends]]
    hits: Sequence[str]


def _to(server: str, client: str, choose: Callable[[Stage], Awaitable[Names]]) -> Link:
    """Return the link from all processes of a kind to some of another one."""

    async def ends(stage: Stage) -> Ends:
        return stage.kinds[client], await choose(stage)

    return Link(ends, [client, server])


def _kinds(client: str, server: str) -> Link:
    async def all_of_it(stage: Stage) -> Names:
        return stage.kinds[server]

    return _to(server, client, all_of_it)


async def _leader(stage: Stage) -> Names:
    return [await stage.leader()]


async def _primary(stage: Stage) -> Names:
    return (await stage.shard())[:1]


async def _brokers_and_leader(stage: Stage) -> Ends:
    leader = await stage.leader()
    return [name for name in stage.kinds["kafka"] if name != leader], [leader]


async def _replicas_and_primary(stage: Stage) -> Ends:
    primary, *replicas = await stage.shard()
    return replicas, [primary]


CLIENTS: Final = "gateway", "projector"
LINKS: Final[Mapping[str, Mapping[str, Link]]] = {
    "single": {
        f"{client}-{server}": _kinds(client, server) for client in CLIENTS for server in ("kafka", "valkey")
    },
    "cluster": {
        **{f"{client}-kafka": _kinds(client, "kafka") for client in CLIENTS},
        **{f"{client}-leader": _to("kafka", client, _leader) for client in CLIENTS},
        **{f"{client}-primary": _to("valkey", client, _primary) for client in CLIENTS},
        "brokers-leader": Link(_brokers_and_leader, ["kafka"]),
        "replicas-primary": Link(_replicas_and_primary, ["valkey"]),
    },
}


async def _disturbed(link: Link, disturb: Disturb, stage: Stage) -> list[Rule]:
    left, right = await link.ends(stage)
    return disturb(left, right, Random(stage.rng.random()))


async def _cut_off(with_projectors: bool, stage: Stage) -> list[Rule]:
    """A primary that reaches gateways, but no replica (and no projector), and that no other server hears."""
    primary, *replicas = await stage.shard()
    unreached = [*replicas, *(stage.kinds["projector"] if with_projectors else ())]
    others = [name for name in stage.kinds["valkey"] if name not in (primary, *replicas)]
    return [
        Rule([primary], unreached, held),
        Rule(unreached, [primary], held),
        Rule([primary], others, held),
    ]


Rules = Callable[[Stage], Awaitable[list[Rule]]]


def network_faults(topology: str) -> dict[str, tuple[Rules, Sequence[str]]]:
    """Return the rules of the faults and the kinds of processes that they hit, by the faults' names."""
    found: dict[str, tuple[Rules, Sequence[str]]] = {
        f"{name} {of}": (partial(_disturbed, link, disturb), link.hits)
        for of, link in LINKS[topology].items()
        for name, disturb in DISTURBANCES.items()
    }
    if topology == "cluster":
        found["cut off a primary"] = partial(_cut_off, False), ["valkey"]
        found["cut off a primary from projectors"] = partial(_cut_off, True), ["valkey", "projector"]
    return found
