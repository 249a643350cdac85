"""Opens a deployment for `status` and `doctor`: they use the servers that answer, and name the others."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from libs.concurrency.tasks import Deadline
from libs.deployment.deployment import Deployment
from libs.deployment.settings import DeploymentAddresses
from libs.local_stack import kafka, valkey
from libs.local_stack.server_interface import AwayServer
from libs.tally.errors import LogUnavailable
from libs.views.valkey.settings import server_urls

WITHIN_S: Final = 3.5
"""Seconds that all probes of `status` and `doctor` share, of the 5 s that operators wait at most: the rest is for
the start and the end."""
PROBE_S: Final = 1.0
"""Seconds in which a server must answer."""
FIND_S: Final = 0.75
"""Seconds to find the topics of the votes."""
CLOSE_S: Final = 0.2
REQUEST_MS: Final = 500


class PresentServers(NamedTuple):
    """A deployment that uses the servers that answer, and the others of its addresses; all until a deadline."""

    deployment: Deployment
    deadline: Deadline
    log_answers: bool
    views_answer: bool
    away_brokers: list[AwayServer]
    away_valkeys: list[AwayServer]


@asynccontextmanager
async def open_present(addresses: DeploymentAddresses) -> AsyncIterator[PresentServers]:
    deadline = Deadline(WITHIN_S)
    brokers, valkeys = await asyncio.gather(
        kafka.away_servers(addresses.kafka, PROBE_S), valkey.away_servers(addresses.valkey, PROBE_S)
    )
    settings = addresses.description.get("kafka_settings", {}) | {"kafka_request_timeout_ms": REQUEST_MS}
    deployment = Deployment(
        replace(
            addresses,
            kafka=_without(addresses.kafka, brokers),
            valkey=_last(addresses.valkey, valkeys),
            description=addresses.description | {"kafka_settings": settings},
        )
    )
    log_answers = len(brokers) < len(addresses.kafka.split(","))
    views_answer = len(valkeys) < len(server_urls(addresses.valkey))
    present = PresentServers(deployment, deadline, log_answers, views_answer, brokers, valkeys)
    try:
        if present.log_answers:
            with suppress(LogUnavailable, TimeoutError):
                await asyncio.wait_for(deployment.find_topics(), FIND_S)
        yield present
    finally:
        with suppress(TimeoutError):
            await asyncio.wait_for(deployment.close(), CLOSE_S)


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
