"""Pictures decoded in processes of their own, which a picture may cost but nobody else's requests."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from typing import Any, Final
from weakref import WeakValueDictionary

import msgpack

from libs.media.decoder import LENGTH, frame
from libs.media.pictures import NotAPicture, Picture
from libs.tally.errors import Overloaded

UPLOADS_AT_ONCE: Final = 2
"""Of different accounts; further ones wait. Voting in the same process goes on beside them."""
RENDITIONS_AT_ONCE: Final = 1
"""In a process of their own, so that no upload holds up those who look at pictures."""
WAIT_S: Final = 30.0
"""How long a picture waits for its turn; one more is refused."""
PASSED_ON: Final = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""All that a decoder gets of the environment, which may hold passwords."""
TOO_LONG: Final = "takes too long to be read"
UNREADABLE: Final = "cannot be read"


class Decoders:
    """Takes pictures in and makes them smaller; at most one upload of an account at once.

    Processes start when they are first needed; `close` ends them.
    """

    def __init__(self, max_pixels: int, cpu_s: float) -> None:
        """`cpu_s` is for one picture; on a busy machine it may take thrice that."""
        self._limits = {"max_pixels": max_pixels, "cpu_s": cpu_s}
        self._uploads = _Pool(UPLOADS_AT_ONCE, 3 * cpu_s)
        self._renditions = _Pool(RENDITIONS_AT_ONCE, 3 * cpu_s)
        self._accounts: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def take_in(self, account: str, data: bytes, formats: Collection[str]) -> tuple[Picture, str]:
        """The picture in `data`, and its SHA-256. Raises `NotAPicture` and `Overloaded`."""
        lock = self._accounts.setdefault(account, asyncio.Lock())
        async with _turn(lock):
            found = await self._uploads.ask(self._limits | {"longest": 0, "formats": list(formats), "data": data})
        return Picture(found["format"], found["width"], found["height"], found["data"]), found["sha256"]

    async def shrink(self, data: bytes, name: str, longest: int) -> bytes:
        """As `pictures.shrunk`. Raises `NotAPicture` and `Overloaded`."""
        found = await self._renditions.ask(self._limits | {"longest": longest, "format": name, "data": data})
        shrunk: bytes = found["data"]
        return shrunk

    @property
    def pids(self) -> list[int]:
        """The processes that run now."""
        return [*self._uploads.pids, *self._renditions.pids]

    async def close(self) -> None:
        """Ends the processes, whatever they are doing."""
        await self._uploads.close()
        await self._renditions.close()


class _Pool:
    """Up to `size` processes that last; one that was killed or died is replaced by the next request."""

    def __init__(self, size: int, deadline_s: float) -> None:
        self._free = asyncio.Semaphore(size)
        self._deadline_s = deadline_s
        self._idle: list[Process] = []
        self._running: set[Process] = set()

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._running]

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Raises `NotAPicture` for what is refused, or ends its process, `Overloaded` after `WAIT_S`."""
        async with _turn(self._free):
            # a process may have been killed while it was idle: what ends a second one does so by its contents
            answer = await self._attempt(request) or await self._attempt(request) or {"refused": UNREADABLE}
        if "refused" in answer:
            raise NotAPicture(answer["refused"])
        return answer

    async def close(self) -> None:
        for process in list(self._running):
            await self._end(process)

    async def _attempt(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """The answer; None where the process ended of another cause than the time that it took."""
        process = await self._process()
        answer = None
        try:
            async with asyncio.timeout(self._deadline_s):
                answer = await _exchange(process, frame(request))
        except TimeoutError:
            return {"refused": TOO_LONG}
        except (asyncio.IncompleteReadError, ConnectionError):
            return {"refused": TOO_LONG} if await process.wait() == -signal.SIGXCPU else None
        finally:
            if answer is None:
                await self._end(process)
            else:
                self._idle.append(process)
        return answer

    async def _process(self) -> Process:
        while self._idle:
            process = self._idle.pop()
            if process.returncode is None:
                return process
            self._running.discard(process)
        environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-B", "-P", "-m", "libs.media.decoder"), stdin=PIPE, stdout=PIPE, env=environment
        )
        self._running.add(process)
        return process

    async def _end(self, process: Process) -> None:
        self._running.discard(process)
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@asynccontextmanager
async def _turn(lock: asyncio.Lock | asyncio.Semaphore) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(WAIT_S):
            await lock.acquire()
    except TimeoutError:
        raise Overloaded("Too many pictures are being read at once.", retry_after_s=5) from None
    try:
        yield
    finally:
        lock.release()


async def _exchange(process: Process, request: bytes) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(request)
    await process.stdin.drain()
    (length,) = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
    answer: dict[str, Any] = msgpack.unpackb(await process.stdout.readexactly(length))
    return answer
