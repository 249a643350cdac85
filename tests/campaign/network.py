"""The network of a stack: a proxy of each port at which services, brokers and servers of Valkey find one another.

Brokers have a listener for services and one another, and advertise the addresses of its proxy and their
controller's; Valkey's servers announce those of their port and their bus. The proxies know the processes at both
ends of a connection. The campaign itself and commands have no name there, and reach the servers undisturbed.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest import mock

from libs.local_stack import kafka, ports, valkey
from libs.local_stack.data_dir import LOCK
from libs.local_stack.kafka import NativeKafka, address_with, login
from libs.local_stack.ports import LOOPBACK
from libs.local_stack.server_interface import NativeServer
from libs.local_stack.service_process import PARTS, ServiceProcess
from libs.local_stack.supervisor import Supervisor
from libs.local_stack.valkey import NativeValkey
from libs.storage.private_files import own_directory, remembered_secret, write_private
from tests.support.servers.network import Network, open_network

LISTENER: Final = "MEMBERS"
"""Name of the brokers' listener for services and for one another."""


@dataclass
class Addresses:
    """Servers' ports by their names, the port of each one's proxy, and the processes found by their names."""

    brokers: dict[str, int]
    controllers: dict[str, int]
    listeners: dict[str, int]
    valkey: dict[str, int]
    buses: dict[str, int]
    proxies: dict[int, int] = field(default_factory=dict, init=False)
    servers: dict[str, NativeServer] = field(default_factory=dict, init=False)
    stack: Supervisor | None = field(default=None, init=False)

    @property
    def of_proxies(self) -> dict[int, int]:
        """The server's port of each proxy's."""
        return {proxy: port for port, proxy in self.proxies.items()}

    def pids(self) -> dict[str, int]:
        found = {name: server.pid for name, server in self.servers.items() if server.pid is not None}
        return found if self.stack is None else found | self.stack.pids

    def endpoint(self, port: int) -> str:
        return f"{LOOPBACK}:{self.proxies[port]}"


@dataclass(frozen=True)
class StackNetwork:
    """The proxies, and the services that use them."""

    proxies: Network
    addresses: Addresses
    parts: list[ServiceProcess]


@asynccontextmanager
async def open_stack_network(data_dir: Path, members: Mapping[str, Any]) -> AsyncIterator[StackNetwork]:
    """Open the proxies of a stack that is started while the context is open; `data_dir` is new."""
    with own_directory(data_dir):
        write_private(data_dir / LOCK, "")
    addresses = _addresses(data_dir / "ports.json", members)
    async with open_network(addresses.pids) as network:
        for each in (addresses.controllers, addresses.listeners, addresses.valkey, addresses.buses):
            for name, port in each.items():
                addresses.proxies[port] = await network.open(port, name)
        with (
            mock.patch.object(kafka, "NativeKafka", _broker_with(addresses)),
            mock.patch.object(valkey, "NativeValkey", _valkey_with(addresses)),
        ):
            yield StackNetwork(network, addresses, _services(data_dir, addresses))


def _addresses(file: Path, members: Mapping[str, Any]) -> Addresses:
    """Return the ports that the stack will use, and further ones of brokers' listeners."""
    brokers, servers, controller = ["kafka"], ["valkey"], "kafka_controller"
    shards = members.get("valkey_shards", 0)
    if shards:
        brokers = [f"kafka-{number + 1}" for number in range(members["brokers"])]
        servers = [f"valkey-{number + 1}" for number in range(shards * (1 + members["valkey_replicas"]))]
        controller = "{}-controller"
    of_kinds = (
        {name: name for name in brokers},
        {name: controller.format(name) for name in brokers},
        {name: f"{name}-members" for name in brokers},
        {name: name for name in servers},
        {name: f"{name}-bus" for name in servers if shards},
    )
    port = ports.remembered(file, [key for keys in of_kinds for key in keys.values()])
    return Addresses(*({name: port[key] for name, key in keys.items()} for keys in of_kinds))


def _services(data_dir: Path, addresses: Addresses) -> list[ServiceProcess]:
    """Return the services, with the proxies' addresses in their environment."""
    password = remembered_secret(data_dir / "kafka" / kafka.SECRET_FILE)
    secret = remembered_secret(data_dir / "valkey" / valkey.SECRET_FILE)
    brokers = ",".join(map(addresses.endpoint, addresses.listeners.values()))
    servers = ",".join(map(addresses.endpoint, addresses.valkey.values()))
    environment = (
        f"TALLY_KAFKA_BOOTSTRAP_SERVERS={address_with(password, brokers)}",
        f"TALLY_VALKEY_URL=redis://default:{secret}@{servers}/0",
    )
    return [ServiceProcess(part.name, ("env", *environment, *part.command), part.drain_s) for part in PARTS]


def _broker_with(addresses: Addresses) -> type[NativeKafka]:
    class Broker(NativeKafka):
        """A broker whose other members and services reach it through proxies."""

        def _properties(self) -> dict[str, object]:
            found: dict[str, Any] = dict(super()._properties())
            port = addresses.listeners.get(self.name)
            if port is None or addresses.brokers[self.name] != self._port:  # the one of which the cache is made
                return found
            addresses.servers[self.name] = self
            nodes = zip(self._membership.controllers, addresses.controllers.values(), strict=True)
            own = addresses.endpoint(addresses.controllers[self.name])
            return found | {
                "listeners": f"{found['listeners']},{LISTENER}://{LOOPBACK}:{port}",
                "advertised.listeners": f"{found['advertised.listeners']},CONTROLLER://{own},"
                f"{LISTENER}://{addresses.endpoint(port)}",
                "inter.broker.listener.name": LISTENER,
                "controller.quorum.voters": ",".join(
                    f"{node}@{addresses.endpoint(controller)}" for node, controller in nodes
                ),
                "listener.security.protocol.map": f"{found['listener.security.protocol.map']},"
                f"{LISTENER}:SASL_PLAINTEXT",
                f"listener.name.{LISTENER.lower()}.plain.sasl.jaas.config": login(self._password),
            }

    return Broker


def _valkey_with(addresses: Addresses) -> type[NativeValkey]:
    class Server(NativeValkey):
        """A server that the others and services reach through proxies."""

        def __init__(self, *given: Any, further: Mapping[str, object] | None = None, **options: Any) -> None:
            name = options.get("name", "valkey")
            if name in addresses.buses:
                further = {
                    **(further or {}),
                    "cluster-announce-ip": LOOPBACK,
                    "cluster-announce-port": addresses.proxies[addresses.valkey[name]],
                    "cluster-announce-bus-port": addresses.proxies[addresses.buses[name]],
                }
            super().__init__(*given, further=further, **options)
            addresses.servers[name] = self

    return Server
