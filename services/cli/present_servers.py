"""Opens a deployment for `status` and `doctor`: they use the servers that answer, and name the others."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

from libs.concurrency.own_time import OwnTime
from libs.concurrency.tasks import Deadline
from libs.deployment.deployment import Deployment
from libs.deployment.settings import DeploymentAddresses
from libs.kafka.topics import number_of_partitions, wrong_partitions
from libs.local_stack import kafka, valkey
from libs.local_stack.server_interface import AwayServer
from libs.tally.errors import LogUnavailable, TallyError
from libs.views.valkey.settings import server_urls

WITHIN_S: Final = 3.75
"""Seconds that all probes of `status` and `doctor` share, of the 5 s that operators wait at most: the rest is for
the start and the end."""
SOON_S: Final = 0.3
"""Seconds after which servers that have not answered are passed over, and asked once more meanwhile."""
PROBE_S: Final = 1.0
"""Seconds in which such a server must answer then; else it is away."""
FIND_S: Final = 0.75
"""Seconds to find the topics of the votes."""
CLOSE_S: Final = 0.2
REQUEST_MS: Final = 500
BUSY_PATIENCE: Final = 2.5
"""Multiple of all these times for a second look on a busy machine, where the first says little. Half of the time
for all, which one step may take, stays below the 5 s after which the clients give up, without naming a server."""

T = TypeVar("T")


class PresentServers(NamedTuple):
    """A deployment that uses the servers that answer, and the others of its addresses; all until a deadline."""

    deployment: Deployment
    deadline: Deadline
    log_answers: bool
    views_answer: bool
    away: Awaitable["AwayServers"]
    wrong: TallyError | None
    """Another number of partitions than the topics have: the views cannot be read with it."""


class AwayServers(NamedTuple):
    brokers: list[AwayServer]
    valkeys: list[AwayServer]


async def look(once: Callable[[float], Awaitable[T]], is_doubtful: Callable[[T], bool]) -> T:
    """Return what `once`, given a multiple of the usual patience, finds about the servers.

    It looks again, with more patience, if it found that one is silent in a time that this process itself spent,
    or waited for a processor: then the silence may be its own.
    """
    own = OwnTime()
    found = await once(1.0)
    return await once(BUSY_PATIENCE) if is_doubtful(found) and own.is_most(PROBE_S) else found


@asynccontextmanager
async def open_present(addresses: DeploymentAddresses, patience: float = 1.0) -> AsyncIterator[PresentServers]:
    """Open the deployment of the addresses; `patience` multiplies all times that servers have to answer."""
    deadline = Deadline(WITHIN_S * patience)
    silent = await _probed(addresses, SOON_S * patience)
    away = asyncio.ensure_future(_probed(addresses, PROBE_S * patience) if any(silent) else _known(silent))
    named = len(addresses.kafka.split(",")), len(server_urls(addresses.valkey))
    if len(silent.brokers) == named[0] or len(silent.valkeys) == named[1]:
        silent = await away
    settings = addresses.description.get("kafka_settings", {}) | {
        "kafka_request_timeout_ms": round(REQUEST_MS * patience)
    }
    deployment = Deployment(
        replace(
            addresses,
            kafka=_without(addresses.kafka, silent.brokers),
            valkey=_last(addresses.valkey, silent.valkeys),
            description=addresses.description | {"kafka_settings": settings},
        )
    )
    log_answers, views_answer = len(silent.brokers) < named[0], len(silent.valkeys) < named[1]
    wrong = None
    try:
        if log_answers:
            with suppress(LogUnavailable, TimeoutError):
                await asyncio.wait_for(deployment.find_topics(), FIND_S * patience)
                wrong = await asyncio.wait_for(_other_partitions(deployment), FIND_S * patience)
        yield PresentServers(deployment, deadline, log_answers, views_answer, away, wrong)
    finally:
        with suppress(TimeoutError):
            await asyncio.wait_for(deployment.close(), CLOSE_S)


async def _probed(addresses: DeploymentAddresses, timeout_s: float) -> AwayServers:
    probes = kafka.away_servers(addresses.kafka, timeout_s), valkey.away_servers(addresses.valkey, timeout_s)
    return AwayServers(*await asyncio.gather(*probes))


async def _known(found: AwayServers) -> AwayServers:
    return found


async def _other_partitions(deployment: Deployment) -> TallyError | None:
    first = deployment.votes.topics[0]
    number = (await number_of_partitions(deployment.kafka_settings, [first.name])).get(first.name)
    return None if number in (None, first.partitions) else wrong_partitions(first, number or 0)


def _without(bootstrap_servers: str, away: list[AwayServer]) -> str:
    """Remove the brokers that do not answer, unless none is left: clients begin with any."""
    credentials, at, servers = bootstrap_servers.rpartition("@")
    gone = {server.address for server in away}
    left = [server for server in servers.split(",") if server.strip() not in gone]
    return f"{credentials}{at}{','.join(left) or servers}"


def _last(url: str, away: list[AwayServer]) -> str:
    """Move the servers that do not answer to the end of the URL: a cluster's client begins with the first."""
    parts = urlsplit(url)
    credentials, at, servers = parts.netloc.rpartition("@")
    gone = {server.address for server in away}
    order = sorted(servers.split(","), key=gone.__contains__)
    return parts._replace(netloc=f"{credentials}{at}{','.join(order)}").geturl()
