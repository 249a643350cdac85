"""Keys with rules: expired or used from a foreign address, they are rejected however they are sent."""

import time
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.tally.errors import TallyError
from libs.web.door.auth import AddressRefused, Authenticator
from libs.web.door.client_address import Network, Proxies
from libs.web.door.sessions import COOKIE, Sessions
from libs.web.errors import Unauthorized, status_of
from tests.libs.web.fake_keys import Key, Keys, scope
from tests.support.clients.positions import HeldSecrets

PROXY = "10.0.0.1"
NOW_US = time.time_ns() // 1000
HOUR_US = 3_600_000_000


@dataclass
class OneKey(Keys):
    """A key that is in memory, unless it `is_new`."""

    key: Key
    used: list[str] = field(default_factory=list)
    is_new: bool = False

    def get(self, token: str) -> Key | None:
        return None if self.is_new else self.key

    async def find(self, token: str) -> Key | None:
        return self.key

    async def find_id(self, key_id: str) -> Key | None:
        return self.key

    def mark_used(self, key_id: str) -> None:
        self.used.append(key_id)


async def attempts(keys: OneKey, peer: str, *headers: tuple[str, str]) -> list[type[TallyError] | None]:
    """By a Bearer key known and new, the legacy headers and a session; None where the key was let in."""
    sessions = Sessions(HeldSecrets(b"s" * 32))
    auth = Authenticator(keys, Proxies(PROXY), sessions)
    bearer = scope(peer, ("authorization", "Bearer x"), *headers)
    outcomes: list[type[TallyError] | None] = []

    async def attempt(call: Any, given: dict[str, Any]) -> None:
        error = None
        try:
            await call(given)
        except TallyError as raised:
            error = raised
        outcomes.append(None if error is None else type(error))
        if error is not None:
            assert status_of(error) == (401 if isinstance(error, Unauthorized) else 403)
            assert not any(str(network) in str(error) for network in keys.key.rules.networks)

    for keys.is_new in (False, True):
        await attempt(auth.authenticate, bearer)
        await attempt(
            auth.authenticate_legacy, scope(peer, ("service-brand", "acme"), ("service-key", "x"), *headers)
        )
    await attempt(auth.authenticate, scope(peer, ("cookie", f"{COOKIE}={await sessions.issue('k')}"), *headers))
    keys.is_new = False
    assert (auth.known(bearer) is None) == (outcomes[0] is not None)
    return outcomes


async def test_a_key_without_rules_is_let_in_from_everywhere_and_its_use_is_marked() -> None:
    keys = OneKey(Key())
    assert await attempts(keys, "192.0.2.1") == [None] * 5
    assert keys.used == ["k"] * 6


async def test_an_expired_key_is_unauthorized_and_its_use_is_not_marked() -> None:
    keys = OneKey(Key(expires=NOW_US))
    assert await attempts(keys, "192.0.2.1") == [Unauthorized] * 5
    assert not keys.used
    assert await attempts(OneKey(Key(expires=NOW_US + HOUR_US)), "192.0.2.1") == [None] * 5


networks = st.lists(
    st.one_of(
        st.builds(
            lambda n, size: IPv4Network((n, size), strict=False), st.integers(0, 2**32 - 1), st.integers(0, 32)
        ),
        st.builds(
            lambda n, size: IPv6Network((n, size), strict=False), st.integers(0, 2**128 - 1), st.integers(0, 128)
        ),
    ),
    min_size=1,
    max_size=3,
)


@given(networks=networks, other=st.ip_addresses(), pick=st.integers(0, 2**128), is_forwarded=st.booleans())
async def test_a_key_of_networks_is_let_in_from_them_alone(
    networks: list[Network], other: Any, pick: int, is_forwarded: bool
) -> None:
    network = networks[pick % len(networks)]
    inside = network[pick % network.num_addresses]
    for address in (inside, other):
        seen = getattr(address, "ipv4_mapped", None) or address
        headers = [("x-forwarded-for", str(address))] if is_forwarded and seen != ip_address(PROXY) else []
        is_within = any(seen in each for each in networks)
        outcomes = await attempts(
            OneKey(Key(networks=tuple(networks))), PROXY if headers else str(address), *headers
        )
        assert outcomes == [None if is_within else AddressRefused] * 5


@pytest.mark.parametrize("peer", ["192.0.2.1", "/run/socket"])
async def test_a_forged_header_of_a_stranger_does_not_help(peer: str) -> None:
    keys = OneKey(Key(networks=(ip_network("198.51.100.0/24"),)))
    assert await attempts(keys, peer, ("x-forwarded-for", "198.51.100.7")) == [AddressRefused] * 5
