"""Request counters shared by all processes."""

from libs.views.function_loading import open_valkey
from libs.views.request_counters import RateCounters


async def test_a_counter_expires_and_names_no_address(valkey_address: str, namespace: str) -> None:
    valkey = open_valkey(valkey_address)
    one, other = (RateCounters(valkey, namespace) for _ in range(2))
    name = "address:198.51.100.7"
    assert [await one.add(name, 1, 5, 20), await other.add(name, 1, 2, 20)] == [5, 7]
    assert await one.add(name, 2, 1, 20) == 1
    assert await one.add("key:198.51.100.7", 1, 1, 20) == 1
    keys = await valkey.call("KEYS", f"{namespace}:*")
    assert len(keys) == 3
    for key in keys:
        assert b"198.51" not in key
        assert 0 < await valkey.call("TTL", key) <= 20
    await valkey.close()
