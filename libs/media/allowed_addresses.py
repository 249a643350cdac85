"""Addresses from which callers' URLs may be fetched: public ones, and those that are allowed (SSRF guard)."""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

NOT_PUBLIC: Final = tuple(
    map(
        ip_network,
        (
            # IANA's special-purpose registries (RFC 6890), written out since the standard library's list changes
            # with its version
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/3",  # multicast, reserved, broadcast
            "168.63.129.16/32",  # Azure's host, as seen from its virtual machines
            "2001::/23",  # protocols, Teredo among them
            "2001:db8::/32",
            "2002::/16",  # 6to4: leads to an IPv4 address, and is obsolete
            "3fff::/20",
        ),
    )
)
GLOBAL_IPV6: Final = ip_network("2000::/3")
"""All other IPv6 addresses are link-local, site-local, multicast, or unassigned."""


def is_public(address: Address) -> bool:
    """Return whether the address is globally routable unicast."""
    if address.version == 6 and address not in GLOBAL_IPV6:
        return False
    return not any(address in network for network in NOT_PUBLIC)


@dataclass(frozen=True, slots=True)
class Allowed:
    """Internal hosts and networks that may be reached."""

    hosts: frozenset[str]
    networks: tuple[Network, ...]

    def admits(self, host: str, address: Address) -> bool:
        return (
            is_public(address)
            or host.lower() in self.hosts
            or any(address in network for network in self.networks)
        )


def parse_allowed(text: str) -> Allowed:
    """Parse comma-separated hosts and networks."""
    hosts, networks = [], []
    for part in _parts(text):
        try:
            networks.append(ip_network(part, strict=False))
        except ValueError:
            hosts.append(part.lower())
    return Allowed(frozenset(hosts), tuple(networks))


def _parts(text: str) -> Iterable[str]:
    return (part.strip() for part in text.split(",") if part.strip())


class NotFetched(ValueError):
    """The URL cannot be fetched, or is not allowed; the message is safe to show."""
