"""IP addresses: what one person holds."""

from ipaddress import IPv4Address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from libs.contracts.ip_addresses import is_ipv4, network_of


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("64:ff9b::192.0.2.7", "192.0.2.7"),
        ("64:ff9b::c000:208", "192.0.2.8"),
        ("64:ff9b:1::192.0.2.7", "64:ff9b:1::/64"),
        ("2001:db8:0:1:ffff::1", "2001:db8:0:1::/64"),
        ("2001:db8:0:1::2", "2001:db8:0:1::/64"),
    ],
)
def test_an_address_counts_by_what_one_person_holds(address: str, network: str) -> None:
    assert network_of(address) == network


@given(st.ip_addresses().map(str) | st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,4}){3}\Z") | st.text())
@example("1.2.3.04")
@example("1.2.3")
@example("1.2.3.4\n")
@example("1.2.3.4\0")
@example("١.2.3.4")
def test_the_quick_check_of_an_ipv4_address_agrees_with_the_thorough_one(address: str) -> None:
    try:
        expected = str(IPv4Address(address))
    except ValueError:
        assert not is_ipv4(address)
    else:
        assert is_ipv4(address)
        assert network_of(address) == expected
