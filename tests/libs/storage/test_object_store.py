"""Secrets are created once, for any number of concurrent callers."""

import asyncio
import os
from pathlib import Path

import pytest

from libs.storage.object_store import StorageUnavailable, Store, open_store
from libs.storage.secrets import (
    account_secret,
    contest_secret,
    erase_contest_secret,
    find_contest_secret,
    server_secret,
)
from libs.tally.errors import SecretErased


async def test_everybody_gets_the_same_secret_and_another_for_each_purpose(store_url: str) -> None:
    stores = [open_store(store_url), open_store(store_url.removeprefix("file://"))]
    found = await asyncio.gather(*(contest_secret(stores[n % 2], "c") for n in range(20)))
    assert len(set(found)) == 1
    assert len(found[0]) == 32
    others = contest_secret(stores[0], "d"), account_secret(stores[0], "c"), server_secret(stores[0], "c")
    assert len({found[0], *await asyncio.gather(*others)}) == 4


async def test_an_object_is_written_once(store: Store) -> None:
    assert await store.get("a/b") is None
    assert await store.put_if_absent("a/b", b"first")
    assert not await store.put_if_absent("a/b", b"second")
    assert await store.get("a/b") == b"first"
    await store.delete("a/b")
    await store.delete("a/b")
    assert await store.get("a/b") is None


async def test_a_secret_and_its_directories_are_on_the_disk_before_anything_depends_on_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vote that was recorded under a secret which a power cut takes could never be counted for its voter."""
    flushed = list[str]()
    fsync = os.fsync

    def noted(handle: int) -> None:
        flushed.append(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    root = tmp_path / "objects"
    names = [str(root / name) for name in ("secrets/contests/c", "secrets/contests", "secrets")] + [str(root)]
    await contest_secret(open_store(f"file://{root}"), "c")
    assert flushed[: len(names)] == names
    # another process may read what the first has written and not flushed yet
    flushed.clear()
    await contest_secret(open_store(f"file://{root}"), "c")
    assert flushed == names
    for write in ("replace", "put_if_absent"):
        flushed.clear()
        await getattr(open_store(f"file://{root}"), write)(f"files/{write}", b"bytes")
        assert flushed == [str(root / "files" / write), str(root / "files"), str(root)]


async def test_a_store_that_cannot_be_reached_says_so(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/objects")
    (tmp_path / "objects" / "secrets").write_text("in the way")
    with pytest.raises(StorageUnavailable):
        await contest_secret(store, "c")


async def test_a_destroyed_secret_is_gone_for_all_processes_and_never_made_again(store: Store) -> None:
    await contest_secret(store, "voted")
    for contest in ("voted", "not needed yet"):
        await asyncio.gather(erase_contest_secret(store, contest), erase_contest_secret(store, contest))
        with pytest.raises(SecretErased):
            await contest_secret(store, contest)
        with pytest.raises(SecretErased):
            await find_contest_secret(store, contest)
    assert await contest_secret(store, "another")
