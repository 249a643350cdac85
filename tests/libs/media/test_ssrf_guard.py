"""Only public addresses are reached, in any notation of an address."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from libs.contracts.ip_addresses import plain_address
from libs.media.allowed_addresses import Allowed, is_public, parse_allowed

PRIVATE = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "224.0.0.0/4",
    "240.0.0.0/4",
]
PRIVATE_6 = ["::/127", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8", "2001:db8::/32", "2002::/16", "2001::/32"]
PUBLIC = ["1.1.1.1", "8.8.8.8", "93.184.215.14", "223.255.255.255", "2606:4700::1111", "2a00:1450:4001::200e"]


def somewhere_in(network: str) -> st.SearchStrategy[str]:
    found = ip_network(network)
    make = IPv4Address if found.version == 4 else IPv6Address
    first, last = int(found.network_address), int(found.broadcast_address)
    return st.integers(first, last).map(lambda number: str(make(number)))


def may(text: str) -> bool:
    return is_public(plain_address(text))


def within_6(address: str) -> list[str]:
    """An IPv4 address in the ways in which IPv6 can write it."""
    number = int(IPv4Address(address))
    return [
        f"::ffff:{address}",
        str(IPv6Address(int(IPv6Address("64:ff9b::")) + number)),
        str(IPv6Address(int(IPv6Address("64:ff9b:1::")) + number)),
        str(IPv6Address(int(IPv6Address("2002::")) + (number << 80))),
        str(IPv6Address(number)),
        str(IPv6Address(int(IPv6Address("2001::")) + (number ^ 0xFFFF_FFFF))),
    ]


@given(st.sampled_from(PRIVATE).flatmap(somewhere_in))
@example("169.254.169.254")
@example("100.100.100.200")
@example("192.0.0.192")
@example("168.63.129.16")  # of a cloud's hosts, and public by its range
def test_no_address_within_is_reached_in_whichever_way_it_is_written(address: str) -> None:
    assert not any(may(written) for written in [address, *within_6(address)])


@given(st.sampled_from(PRIVATE_6).flatmap(somewhere_in))
@example("fd00:ec2::254")
@example("fe80::1%eth0")
@example("::1")
def test_no_address_of_ipv6_that_is_not_everybody_s_is_reached(address: str) -> None:
    assert not may(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_what_is_everybody_s_is_reached(address: str) -> None:
    assert may(address)


def test_behind_a_translator_the_address_that_is_meant_decides() -> None:
    assert may("64:ff9b::8.8.8.8")
    assert may("::ffff:8.8.8.8")
    assert not may("64:ff9b::169.254.169.254")


@given(st.integers(0, 2**32 - 1).map(IPv4Address))
def test_what_the_standard_library_calls_private_is_never_public(address: IPv4Address) -> None:
    if address.is_private or address.is_multicast or address.is_reserved:
        assert not is_public(address)


def test_what_is_listed_may_be_reached_and_nothing_else() -> None:
    allowed = parse_allowed(" 127.0.0.1, 10.1.0.0/16 ,Intranet.example,fd00::/8,")
    assert allowed.admits("x", ip_address("127.0.0.1"))
    assert allowed.admits("x", ip_address("10.1.2.3"))
    assert allowed.admits("x", ip_address("fd00::1"))
    assert allowed.admits("INTRANET.example", ip_address("192.168.0.1"))
    assert not allowed.admits("x", ip_address("127.0.0.2"))
    assert not allowed.admits("other.intranet.example", ip_address("192.168.0.1"))
    assert parse_allowed("") == Allowed(frozenset(), ())
