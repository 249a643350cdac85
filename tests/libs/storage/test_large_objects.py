"""Large objects are streamed, and an incomplete one never exists."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from libs.storage.object_store import PART_BYTES, Store, open_store
from tests.support.eventually import eventually


@pytest.fixture
def directory(tmp_path: Path) -> Store:
    return open_store(str(tmp_path))


async def pieces(*sizes: int, fails: BaseException | None = None) -> AsyncIterator[bytes]:
    for size in sizes:
        yield os.urandom(size)
    if fails is not None:
        raise fails


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.rglob("*") if path.is_file())


async def whole(chunks: AsyncIterator[bytes] | None) -> bytes:
    assert chunks is not None
    return b"".join([bytes(chunk) async for chunk in chunks])


async def test_what_was_written_in_pieces_is_read_whole_or_in_part(store: Store) -> None:
    sent: list[bytes] = []

    async def kept() -> AsyncIterator[bytes]:
        async for piece in pieces(*[300_000] * 50):
            sent.append(piece)
            yield piece

    await store.write("a/b", kept())
    data = b"".join(sent)
    assert await whole(await store.read("a/b", 0, len(data))) == data
    assert await whole(await store.read("a/b", 7_000_001, 7_900_000)) == data[7_000_001:7_900_000]
    assert await store.read("a/c", 0, 1) is None
    await store.write("a/empty", pieces())
    assert await store.get("a/empty") == b""


async def test_what_breaks_off_is_not_there_and_says_why(store: Store) -> None:
    with pytest.raises(ZeroDivisionError):
        await store.write("a/b", pieces(*[PART_BYTES] * 2, fails=ZeroDivisionError()))
    assert await store.names("a") == []
    await store.write("a/b", pieces(3))
    with pytest.raises(ZeroDivisionError):
        await store.write("a/b", pieces(*[PART_BYTES] * 2, fails=ZeroDivisionError()))
    assert len(await store.get("a/b") or b"") == 3


async def test_what_breaks_off_leaves_no_part_of_a_file(directory: Store, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        await directory.write("a/b", pieces(*[PART_BYTES] * 4, fails=ZeroDivisionError()))
    await eventually(lambda: files(tmp_path) == [])
    going = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        async for piece in pieces(*[PART_BYTES] * 4):
            yield piece
        going.set()
        await asyncio.Event().wait()

    writing = asyncio.ensure_future(directory.write("a/b", endless()))
    await going.wait()
    assert await directory.get("a/b") is None
    writing.cancel()
    await asyncio.wait([writing])
    await eventually(lambda: files(tmp_path) == [])


async def test_who_has_begun_to_read_gets_all_of_it(store: Store) -> None:
    await store.write("a", pieces(*[1 << 20] * 8))
    found = await store.get("a")
    chunks = await store.read("a", 0, 8 << 20)
    assert chunks is not None
    first = bytes(await anext(chunks))
    await store.delete("a")
    assert first + await whole(chunks) == found


async def test_a_sweep_takes_what_is_old_and_not_kept_half_written_parts_too(
    directory: Store, tmp_path: Path
) -> None:
    for name in ("x/keep", "x/old", "x/new", "xy/other"):
        await directory.put_if_absent(name, b"1")
    for part in ("x/killed#1", "x/going#1", "xy/killed#1"):
        (tmp_path / part).write_bytes(b"half")
    for name in ("x/keep", "x/old", "x/killed#1", "xy/other", "xy/killed#1"):
        os.utime(tmp_path / name, (1, 1))
    await directory.sweep("x", keep="x/keep", idle_s=3600)
    assert files(tmp_path / "x") == ["going#1", "keep", "new"]
    await directory.sweep("x")
    assert files(tmp_path) == ["killed#1", "other"]
    await directory.sweep("nothing")
