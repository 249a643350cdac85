"""Rotated secrets: one signs at any time, in every process, and old signatures stay valid."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.storage import secret_rings
from libs.storage.object_store import StorageUnavailable, Store, open_store
from libs.storage.secret_rings import AHEAD_S, SecretRing, SecretWaits, read_ring, retired, rotate

AHEAD_US = AHEAD_S * 1_000_000


def now_us() -> int:
    return time.time_ns() // 1000


async def test_the_first_secret_is_made_once_and_signs_until_another_is_due(store: Store) -> None:
    one, other = SecretRing(store, "x"), SecretRing(store, "x")
    (first,) = await one()
    assert await other() == (first,)
    made = await rotate(store, "x", now_us())
    assert await SecretRing(store, "x")() == (made.value, first)
    later = SecretRing(store, "x", clock=lambda: now_us() + 2 * AHEAD_US)
    assert await later() == (first, made.value)
    for ring in (SecretRing(store, "x"), later):
        await ring.load()
        assert [ring.at(made.since - 1), ring.at(made.since), ring.at(0)] == [first, made.value, first]


async def test_purposes_whose_names_begin_alike_are_kept_apart(store: Store) -> None:
    found = [await SecretRing(store, name)() for name in ("x", "x.1", "xy")]
    await rotate(store, "x", now_us())
    assert [await SecretRing(store, name)() for name in ("x.1", "xy")] == found[1:]


async def test_a_secret_is_not_rotated_or_retired_while_a_new_one_waits(store: Store) -> None:
    ring, now = SecretRing(store, "x"), now_us()
    (first,) = await ring()
    await rotate(store, "x", now)
    with pytest.raises(SecretWaits):
        await rotate(store, "x", now)
    with pytest.raises(SecretWaits):
        retired(await read_ring(store, "x"), now)
    for each in retired(await read_ring(store, "x"), now + AHEAD_US):
        assert each.value == first
        await store.delete(each.name)
    left = await read_ring(store, "x")
    assert [each.since for each in left] == [now + AHEAD_US]
    assert retired(left, now + AHEAD_US) == []


async def test_a_process_learns_of_a_secret_before_it_signs(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = SecretRing(store, "x")
    await ring()
    made = await rotate(store, "x", now_us())
    assert made.value not in await ring()
    monkeypatch.setattr(secret_rings, "AGAIN_S", 0.0)
    monkeypatch.setattr(secret_rings, "PATIENCE_S", 60.0)
    assert made.value in await ring(again=True)
    assert secret_rings.FRESH_S < AHEAD_S / 2


async def test_the_first_secret_is_certain_for_times_before_any_other_signs(store: Store) -> None:
    """Also before one that was made since the ring was read."""
    ring, now = SecretRing(store, "x"), now_us()
    assert not ring.is_first(now)
    await ring.load()
    made = await rotate(store, "x", now_us())
    assert [ring.is_first(moment) for moment in (now, made.since)] == [True, False]
    ring = SecretRing(store, "x", clock=lambda: now_us() + 2 * AHEAD_US)
    await ring.load()
    assert [ring.is_first(moment) for moment in (made.since - 1, made.since)] == [True, False]


class Away(Store):
    """Counts looks, and refuses them while `is_away`."""

    is_away = False
    looks = 0

    async def names(self, prefix: str) -> list[str]:
        self.looks += 1
        if self.is_away:
            raise StorageUnavailable("away")
        return await super().names(prefix)


async def test_an_object_store_that_is_away_takes_nothing_from_what_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Away(open_store(str(tmp_path))._backend)
    monkeypatch.setattr(secret_rings, "FRESH_S", 0.0)
    monkeypatch.setattr(secret_rings, "AWAY_S", 0.0)
    ring = SecretRing(store, "x")
    store.is_away = True
    with pytest.raises(StorageUnavailable):
        await ring()
    store.is_away = False
    known = await ring()
    store.is_away, store.looks = True, 0
    assert await ring() == known
    monkeypatch.setattr(secret_rings, "AWAY_S", 60.0)
    assert await asyncio.gather(*(ring() for _ in range(50))) == [known] * 50
    assert store.looks == 1


class Stored:
    """A ring of the test's choosing in place of an object store."""

    def __init__(self, sinces: list[int]) -> None:
        self.held = {"secrets/server/x": b"\0"} | {
            f"secrets/server/x.{since:016d}": bytes([index]) for index, since in enumerate(sorted(sinces), 1)
        }

    async def names(self, prefix: str) -> Iterator[str]:
        return iter(reversed(self.held))

    async def get(self, name: str) -> bytes:
        return self.held[name]


@given(
    sinces=st.lists(st.integers(1, 1000), unique=True, max_size=5),
    moments=st.lists(st.integers(0, 1001), min_size=1, max_size=5),
)
async def test_at_each_moment_exactly_the_latest_secret_that_had_begun_signs(
    sinces: list[int], moments: list[int]
) -> None:
    stored: Any = Stored(sinces)
    ring = SecretRing(stored, "x")
    await ring.load()
    for moment in moments:
        assert ring.at(moment) == bytes([sum(since <= moment for since in sinces)])
