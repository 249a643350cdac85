"""IP addresses as one person holds them: IPv4 within IPv6 is IPv4, and an IPv6 network counts as one."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from socket import AF_INET, inet_pton
from typing import Final

NAT64: Final = IPv6Network("64:ff9b::/96")
"""The well-known prefix of translated IPv4 addresses (RFC 6052)."""


def is_ipv4(address: str) -> bool:
    """Return whether `address` is a dotted IPv4 address, as `ipaddress` in a fraction of its time."""
    try:
        inet_pton(AF_INET, address)
    except (OSError, ValueError):
        return False
    return True


def plain_address(text: str) -> IPv4Address | IPv6Address:
    """Parse an address, unwrapping IPv4 within IPv6 (mapped or NAT64). Raises ValueError."""
    address = ip_address(text)
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in NAT64:
            return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def network_of(address: str) -> str:
    """Return the unit of the address limit: an IPv4 address, or the /64 network of an IPv6 address. Raises
    ValueError."""
    if is_ipv4(address):
        return address
    plain = plain_address(address)
    return f"{IPv6Address(int(plain) >> 64 << 64)}/64" if isinstance(plain, IPv6Address) else str(plain)
