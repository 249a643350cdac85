"""Request counters shared by all processes."""

from libs.views.valkey.client import ValkeyClient
from libs.views.valkey.request_counters import RateCounters


async def secrets() -> tuple[bytes, ...]:
    return b"former", b"s" * 32


async def others() -> tuple[bytes, ...]:
    return (b"t" * 32,)


async def test_no_caller_shares_a_counter_that_he_can_compute(valkey: ValkeyClient, namespace: str) -> None:
    """A hash of few bits lets one find a name with the counter of another's key, and spend its quota."""
    counters = RateCounters(valkey, namespace, secrets), RateCounters(valkey, namespace, others)
    assert [await each.add("key:k", 1, 1, 20) for each in counters] == [1, 1]
    for key in await valkey.call("KEYS", f"{namespace}:*"):
        assert len(bytes.fromhex(key.decode().rpartition(":")[2])) == 16


async def test_a_counter_expires_and_names_no_address(valkey: ValkeyClient, namespace: str) -> None:
    one, other = (RateCounters(valkey, namespace, secrets) for _ in range(2))
    name = "address:198.51.100.7"
    assert [await one.add(name, 1, 5, 20), await other.add(name, 1, 2, 20)] == [5, 7]
    assert await one.add(name, 2, 1, 20) == 1
    assert await one.add("key:198.51.100.7", 1, 1, 20) == 1
    keys = await valkey.call("KEYS", f"{namespace}:*")
    assert len(keys) == 3
    for key in keys:
        assert b"198.51" not in key
        assert 0 < await valkey.call("TTL", key) <= 20
