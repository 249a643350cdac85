"""The end user's IP address: the peer's, or the one forwarded by trusted proxies."""

import logging
import re
import time
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final, Literal

from libs.contracts.ip_addresses import network_of, plain_address
from libs.web.errors import Scope

Network = IPv4Network | IPv6Network
ForwardedHeader = Literal["x-forwarded-for", "forwarded"]
AuditAddresses = Literal["full", "network", "none"]

LOGGED_APART_S: Final = 60.0
KEPT_BITS: Final = {4: 24, 6: 48}
_HOP: Final = re.compile(r"\[(.+)\](?::\d+)?|([^:]+):\d+")
"""An address with brackets or a port."""

logger = logging.getLogger(__name__)


def parse_networks(text: str) -> list[Network]:
    """Parse comma-separated networks or addresses. Raises `ValueError`."""
    return [ip_network(part.strip(), strict=False) for part in text.split(",") if part.strip()]


class Proxies:
    """The trusted proxies, and the one header that they set.

    The other header is ignored: a proxy that does not support it passes on the caller's value.
    """

    def __init__(
        self,
        networks: str = "",
        header: ForwardedHeader = "x-forwarded-for",
        audit_addresses: AuditAddresses = "full",
    ) -> None:
        self._networks = parse_networks(networks)
        self._audit_addresses = audit_addresses
        self._header = header.encode()
        self._logged_at = -LOGGED_APART_S

    def trusts(self, peer: Any) -> bool:
        """Return whether a connection's peer (as in an ASGI scope) is a trusted proxy."""
        return bool(self._networks) and peer is not None and self._within(parse_hop(peer[0]))

    def end_user(self, scope: Scope) -> str | None:
        """Return the last address before the trusted proxies; None if they forward none."""
        if not self.trusts(scope.get("client")):
            return None
        lines = [value.decode("latin-1") for name, value in scope["headers"] if name == self._header]
        if not lines:
            return None
        hops = ",".join(lines).split(",")
        for hop in reversed(hops):
            address = parse_hop(hop if self._header != b"forwarded" else _for_of(hop))
            if address is None:
                self._log(hop)
                return None
            if not self._within(address):
                return str(address)
        return None

    def address(self, scope: Scope) -> IPv4Address | IPv6Address | None:
        """Return the caller's address: the end user's, or the peer's if no trusted proxy forwards one."""
        peer, end_user = scope.get("client"), self.end_user(scope)
        if end_user is not None:
            return ip_address(end_user)
        return None if peer is None else parse_hop(peer[0])

    def origin(self, scope: Scope) -> str:
        """Return the caller's address for the audit: in full, its /24 (IPv6: /48), or empty."""
        address = None if self._audit_addresses == "none" else self.address(scope)
        if address is None:
            return ""
        if self._audit_addresses == "full":
            return str(address)
        return str(ip_network((address, KEPT_BITS[address.version]), strict=False))

    def network(self, scope: Scope) -> str:
        """Return the caller's network for limits: an IPv4 address, or the /64 of an IPv6 address."""
        address = self.end_user(scope)
        return peer_network(scope.get("client")) if address is None else network_of(address)

    def _within(self, address: IPv4Address | IPv6Address | None) -> bool:
        return address is not None and any(address in network for network in self._networks)

    def _log(self, hop: str) -> None:
        """Log an invalid forwarded address, at most once a minute."""
        if time.monotonic() - self._logged_at >= LOGGED_APART_S:
            self._logged_at = time.monotonic()
            header = self._header.decode()
            logger.warning("a trusted proxy sent %s with %r, which is not an address", header, hop.strip()[:100])


def peer_network(peer: Any) -> str:
    """Return the peer's own network, as `Proxies.network`."""
    address = None if peer is None else parse_hop(peer[0])
    return "" if address is None else network_of(str(address))


def parse_hop(text: str) -> IPv4Address | IPv6Address | None:
    """Parse `192.0.2.1`, `192.0.2.1:443`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:443`; else None.

    IPv4 within IPv6 becomes IPv4; a zone is dropped.
    """
    found = _HOP.fullmatch(text.strip())
    host = text.strip() if found is None else found[found.lastindex or 0]
    try:
        return plain_address(host.partition("%")[0])
    except ValueError:
        return None


def _for_of(element: str) -> str:
    """Return the `for` of an element of `Forwarded` (RFC 7239), without quotes.

    Elements are split at every comma: quoted strings with a comma are not addresses, and a caller's unclosed quote
    would hide the proxy's own element.
    """
    for pair in element.split(";"):
        name, _, value = pair.partition("=")
        if name.strip().lower() == "for":
            return value.strip().strip('"')
    return ""
