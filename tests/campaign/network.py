"""The network between services and servers: TCP proxies of ours, one for each kind of service and each server.

Brokers have a listener for each kind of service, whose advertised address is a proxy's; a single Valkey's proxies
are in the services' settings. The campaign itself and commands reach the servers without a proxy.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest import mock

from libs.local_stack import kafka, ports, valkey
from libs.local_stack.data_dir import LOCK
from libs.local_stack.kafka import NativeKafka, address_with, login
from libs.local_stack.ports import LOOPBACK
from libs.local_stack.service_process import PARTS, ServiceProcess
from libs.storage.private_files import own_directory, remembered_secret, write_private
from tests.support.proxy import Proxy, proxy

CLIENTS: Final = ("gateway", "projector")


@dataclass(frozen=True)
class Network:
    """Proxies by link, as `gateway-kafka`, and the services that use them."""

    links: Mapping[str, list[Proxy]]
    parts: list[ServiceProcess]


@asynccontextmanager
async def open_network(data_dir: Path, brokers: int, *, is_valkey_alone: bool) -> AsyncIterator[Network]:
    """Open the proxies of a stack that is started while the context is open; `data_dir` is new."""
    with own_directory(data_dir):
        write_private(data_dir / LOCK, "")
    password = remembered_secret(data_dir / "kafka" / kafka.SECRET_FILE)
    own_ports = {client: ports.free_ports(brokers) for client in CLIENTS}
    environments: dict[str, dict[str, str]] = {client: {} for client in CLIENTS}
    links: dict[str, list[Proxy]] = {}
    async with AsyncExitStack() as opened:
        for client in CLIENTS:
            proxies = [await opened.enter_async_context(proxy(f"{LOOPBACK}:{port}")) for port in own_ports[client]]
            links[f"{client}-kafka"] = proxies
            addresses = ",".join(each.address for each in proxies)
            environments[client]["TALLY_KAFKA_BOOTSTRAP_SERVERS"] = address_with(password, addresses)
        if is_valkey_alone:
            port = ports.remembered(data_dir / "ports.json", ["valkey"])["valkey"]
            secret = remembered_secret(data_dir / "valkey" / valkey.SECRET_FILE)
            for client in CLIENTS:
                between = await opened.enter_async_context(proxy(f"{LOOPBACK}:{port}"))
                links[f"{client}-valkey"] = [between]
                environments[client]["TALLY_VALKEY_URL"] = f"redis://default:{secret}@{between.address}/0"
        parts = [
            ServiceProcess(
                part.name,
                ("env", *(f"{name}={value}" for name, value in environments[part.name].items()), *part.command),
                part.drain_s,
            )
            for part in PARTS
        ]
        listeners = {
            client: list(zip(own_ports[client], links[f"{client}-kafka"], strict=True)) for client in CLIENTS
        }
        with mock.patch.object(kafka, "NativeKafka", _broker_with(listeners)):
            yield Network(links, parts)


def _broker_with(listeners: Mapping[str, list[tuple[int, Proxy]]]) -> type[NativeKafka]:
    """Return a broker's class with further listeners: by their names, port and advertised proxy of each broker."""

    class Broker(NativeKafka):
        def _properties(self) -> dict[str, object]:
            found: dict[str, Any] = dict(super()._properties())
            for name, brokers in listeners.items():
                port, between = brokers[self._membership.node - 1]
                found["listeners"] += f",{name.upper()}://{LOOPBACK}:{port}"
                found["advertised.listeners"] += f",{name.upper()}://{between.address}"
                found["listener.security.protocol.map"] += f",{name.upper()}:SASL_PLAINTEXT"
                found[f"listener.name.{name}.plain.sasl.jaas.config"] = login(self._password)
            return found

    return Broker
