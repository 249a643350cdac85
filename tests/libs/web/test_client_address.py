"""The end user's address: forwarded by trusted proxies only."""

import pytest

from libs.web.door.client_address import ForwardedHeader, Proxies
from libs.web.settings import HostSettings
from tests.libs.web.fake_keys import scope

TRUSTED = "10.0.0.0/8, 2001:db8:ffff::/48"


def found(*lines: str, peer: str | None = "10.0.0.1", header: ForwardedHeader = "x-forwarded-for") -> str | None:
    return Proxies(TRUSTED, header).end_user(scope(peer, *((header, line) for line in lines)))


@pytest.mark.parametrize(
    ("peer", "line", "address"),
    [
        ("10.0.0.1", "198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", "203.0.113.9, 198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", "198.51.100.7, 10.2.2.2", "198.51.100.7"),
        ("::ffff:10.0.0.1", "198.51.100.7, ::ffff:10.2.2.2", "198.51.100.7"),
        ("10.0.0.1", "198.51.100.7, 2001:db8:ffff::1", "198.51.100.7"),
        ("10.0.0.1", " 2001:db8::5 ", "2001:db8::5"),
        ("10.0.0.1", "198.51.100.7:51820", "198.51.100.7"),
        ("10.0.0.1", "[2001:db8::5]", "2001:db8::5"),
        ("10.0.0.1", "[2001:db8::5]:51820, 10.2.2.2:80", "2001:db8::5"),
        ("10.0.0.1", "fe80::1%eth0", "fe80::1"),
        ("10.0.0.1", "203.0.113.9, unknown", None),
        ("10.0.0.1", "203.0.113.9, 198.51.100.7:x", None),
        ("10.0.0.1", "203.0.113.9, [2001:db8::5]x", None),
        ("198.51.100.1", "203.0.113.9", None),
        ("10.0.0.1", "10.3.3.3", None),
        ("10.0.0.1", "no address", None),
        ("10.0.0.1", "", None),
        (None, "198.51.100.7", None),
        ("a socket", "198.51.100.7", None),
    ],
)
def test_the_last_address_before_the_trusted_proxies_is_the_end_users(
    peer: str | None, line: str, address: str | None
) -> None:
    assert found(line, peer=peer) == address


def test_without_the_header_or_a_trusted_proxy_nobody_is_named() -> None:
    assert found() is None
    assert Proxies().end_user(scope("10.0.0.1", ("x-forwarded-for", "198.51.100.7"))) is None


def test_a_line_that_a_proxy_adds_comes_after_the_one_of_its_caller() -> None:
    assert found("203.0.113.9", "198.51.100.7") == "198.51.100.7"
    assert found("203.0.113.9", "198.51.100.7, 10.1.1.1", "10.2.2.2") == "198.51.100.7"


@pytest.mark.parametrize(
    ("lines", "address"),
    [
        (["for=198.51.100.7"], "198.51.100.7"),
        (["for=203.0.113.9;proto=https;by=10.0.0.2, For=198.51.100.7"], "198.51.100.7"),
        (["for=203.0.113.9", 'proto=http;for="[2001:db8::5]:4711"'], "2001:db8::5"),
        (['for="198.51.100.7:4711", for=10.2.2.2'], "198.51.100.7"),
        (['for="203.0.113.9, for=198.51.100.7'], "198.51.100.7"),
        (["for=203.0.113.9, for=_hidden"], None),
        (["for=203.0.113.9, for=unknown"], None),
        (["for=203.0.113.9, proto=https"], None),
    ],
)
def test_the_standard_header_is_read_where_the_proxies_set_that(lines: list[str], address: str | None) -> None:
    assert found(*lines, header="forwarded") == address


def test_the_header_that_the_proxies_do_not_set_is_the_callers_own() -> None:
    both = scope("10.0.0.1", ("forwarded", "for=203.0.113.9"), ("x-forwarded-for", "198.51.100.7"))
    assert Proxies(TRUSTED).end_user(both) == "198.51.100.7"
    assert Proxies(TRUSTED, "forwarded").end_user(both) == "203.0.113.9"


def test_limits_count_by_network() -> None:
    proxies = Proxies(TRUSTED)
    assert proxies.network(scope("198.51.100.1")) == "198.51.100.1"
    assert proxies.network(scope("2001:db8::1:2:3:4")) == "2001:db8::/64"
    assert proxies.network(scope("10.0.0.1", ("x-forwarded-for", "[2001:db8::9]:1"))) == "2001:db8::/64"
    assert proxies.network(scope(None)) == ""


def test_what_a_trusted_proxy_sent_and_cannot_be_read_is_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    proxies = Proxies(TRUSTED)
    for _ in range(3):
        proxies.end_user(scope("10.0.0.1", ("x-forwarded-for", "203.0.113.9, nowhere")))
    assert ["'nowhere'" in record.getMessage() for record in caplog.records] == [True]


def test_a_setting_that_is_no_network_is_refused() -> None:
    with pytest.raises(ValueError, match="trusted_proxies"):
        HostSettings(trusted_proxies="10.0.0.0/8, proxy.example")
