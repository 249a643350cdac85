"""Pictures are decoded in processes whose failure does not affect others."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psutil
import pytest
from PIL import Image

from libs.media import decoder_pool
from libs.media.decoder_pool import TOO_LONG, UNREADABLE, Decoders
from libs.media.picture_encoding import FORMATS, TOO_LARGE, NotAPicture
from libs.tally.errors import Overloaded
from tests.support.builders.pictures import encoded, opened, picture
from tests.support.eventually import eventually

ALL = tuple(FORMATS)


@asynccontextmanager
async def opened_decoders(max_pixels: int = 40_000_000, cpu_s: float = 60) -> AsyncIterator[Decoders]:
    decoders = Decoders(max_pixels, cpu_s)
    try:
        yield decoders
    finally:
        await decoders.close()


@pytest.fixture
async def decoders() -> AsyncIterator[Decoders]:
    async with opened_decoders() as decoders:
        yield decoders


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def taken(decoders: Decoders, account: str = "a") -> None:
    found = await decoders.take_in(account, picture("jpg"), ALL)
    assert (found.format, found.width, found.height, len(found.sha256)) == ("jpg", 40, 20, 64)


async def stopped(decoders: Decoders, account: str) -> tuple[asyncio.Task[None], int]:
    """An upload that does not come to its end, and its process."""
    await taken(decoders, account)
    (pid,) = decoders.pids
    os.kill(pid, signal.SIGSTOP)
    hanging = asyncio.create_task(taken(decoders, account))
    await eventually(lambda: not decoders._uploads._idle)
    return hanging, pid


async def test_pictures_are_taken_in_and_made_smaller_by_processes_that_last(decoders: Decoders) -> None:
    assert decoders.pids == []
    for _ in range(3):
        await taken(decoders)
        assert opened(await decoders.shrink(picture("png", 400, 200), "png", 100)).size == (100, 50)
    assert len(decoders.pids) == 2
    assert os.getpid() not in decoders.pids
    with pytest.raises(NotAPicture, match="no picture of an accepted format"):
        await decoders.take_in("a", picture("jpg"), ["png"])


async def test_one_that_hangs_keeps_neither_another_account_s_uploads_nor_renditions_waiting(
    decoders: Decoders,
) -> None:
    hanging, pid = await stopped(decoders, "hostile")
    second = asyncio.create_task(taken(decoders, "hostile"))
    for n in range(3):
        await taken(decoders, f"other-{n}")
        await decoders.shrink(picture("png", 400, 200), "png", 100)
    assert not hanging.done()
    assert not second.done()
    os.kill(pid, signal.SIGCONT)
    await asyncio.gather(hanging, second)


async def test_one_that_takes_longer_than_its_deadline_is_killed_and_replaced(decoders: Decoders) -> None:
    await taken(decoders)
    decoders._uploads._deadline_s = 1
    hanging, pid = await stopped(decoders, "a")
    with pytest.raises(NotAPicture, match=TOO_LONG):
        await hanging
    assert not runs(pid)
    decoders._uploads._deadline_s = 60
    await taken(decoders)
    assert pid not in decoders.pids


async def test_the_kernel_ends_what_takes_too_much_time_of_a_processor() -> None:
    seconds_of_work = encoded(Image.new("RGB", (6_300, 6_300)), "webp")  # the kernel counts whole seconds
    async with opened_decoders(80_000_000, cpu_s=0.1) as decoders:
        decoders._uploads._deadline_s = 60
        with pytest.raises(NotAPicture, match=TOO_LONG):
            await decoders.take_in("a", seconds_of_work, ALL)


async def test_the_kernel_refuses_too_much_memory() -> None:
    """A PNG of few bytes, each pixel of which becomes four."""
    image = Image.new("P", (9_000, 9_000))
    image.putpalette([200, 0, 0, 0, 0, 200])
    async with opened_decoders(1_000_000) as decoders:
        with pytest.raises(NotAPicture, match=TOO_LARGE):
            await decoders.shrink(encoded(image, "png", bits=1, compress_level=1), "png", 100)


async def test_what_kills_two_processes_is_refused(decoders: Decoders) -> None:
    with pytest.raises(NotAPicture, match=UNREADABLE):
        await decoders.shrink(b"no picture at all", "png", 100)
    await taken(decoders)


async def test_a_caller_that_waits_too_long_is_asked_to_retry(
    decoders: Decoders, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging, pid = await stopped(decoders, "a")
    monkeypatch.setattr(decoder_pool, "WAIT_S", 0.05)
    with pytest.raises(Overloaded):
        await taken(decoders, "a")
    os.kill(pid, signal.SIGCONT)
    await hanging


async def test_a_decoder_has_none_of_the_environment_s_secrets(
    decoders: Decoders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TALLY_VALKEY_URL", "redis://:hunter2@h")
    await taken(decoders)
    (pid,) = decoders.pids
    assert set(psutil.Process(pid).environ()) <= {*decoder_pool.PASSED_ON, "PYTHONPATH"}


PARENT = """
import asyncio
from libs.media.decoder_pool import Decoders
from tests.support.builders.pictures import picture

async def main():
    decoders = Decoders(1_000_000, 60)
    await decoders.take_in("a", picture("jpg"), ["jpg"])
    await decoders.shrink(picture("png", 400, 200), "png", 100)
    print(*decoders.pids, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_none_outlives_its_parent_whichever_way_that_ends(
    decoders: Decoders, pytestconfig: pytest.Config
) -> None:
    await taken(decoders)
    (own,) = decoders.pids
    await decoders.close()
    assert not runs(own)
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PARENT),
        stdout=asyncio.subprocess.PIPE,
        cwd=pytestconfig.rootpath,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(pytestconfig.rootpath), *sys.path])},
    )
    assert parent.stdout is not None
    pids = [int(pid) for pid in (await parent.stdout.readline()).split()]
    assert len(pids) == 2
    parent.kill()
    await parent.wait()
    await eventually(lambda: not any(runs(pid) for pid in pids))
