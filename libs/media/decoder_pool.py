"""Decodes pictures in separate processes: a malicious picture can end its process, but no other requests."""

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
from libs.media.picture_encoding import NotAPicture, Picture
from libs.tally.errors import Overloaded

UPLOADS_AT_ONCE: Final = 2
"""Uploads of different accounts; further ones wait. Voting in the same process continues meanwhile."""
RENDITIONS_AT_ONCE: Final = 1
"""Renditions have a process of their own, so that uploads do not delay them."""
WAIT_S: Final = 30.0
"""Time that a picture waits for a process; then it is refused."""
PASSED_ON: Final = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""The only environment variables that a decoder gets: others may contain passwords."""
TOO_LONG: Final = "takes too long to be read"
UNREADABLE: Final = "cannot be read"


class Decoders:
    """Normalizes and shrinks pictures; at most one upload of an account at once.

    Processes start on first use; `close` ends them.
    """

    def __init__(self, max_pixels: int, cpu_s: float) -> None:
        """Configure limits: `cpu_s` of CPU time for one picture, and three times that as wall time."""
        self._limits = {"max_pixels": max_pixels, "cpu_s": cpu_s}
        self._uploads = _Pool(UPLOADS_AT_ONCE, 3 * cpu_s)
        self._renditions = _Pool(RENDITIONS_AT_ONCE, 3 * cpu_s)
        self._accounts: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def take_in(self, account: str, data: bytes, formats: Collection[str]) -> Picture:
        """Return the normalized picture in `data`. Raises `NotAPicture` and `Overloaded`."""
        lock = self._accounts.setdefault(account, asyncio.Lock())
        async with _turn(lock):
            found = await self._uploads.ask(self._limits | {"longest": 0, "formats": list(formats), "data": data})
        return Picture(**found)

    async def shrink(self, data: bytes, name: str, longest: int) -> bytes:
        """Call `pictures.shrunk` in a process. Raises `NotAPicture` and `Overloaded`."""
        found = await self._renditions.ask(self._limits | {"longest": longest, "format": name, "data": data})
        shrunk: bytes = found["data"]
        return shrunk

    @property
    def pids(self) -> list[int]:
        """Ids of the running processes."""
        return [*self._uploads.pids, *self._renditions.pids]

    async def close(self) -> None:
        """Kill the processes, even busy ones."""
        await self._uploads.close()
        await self._renditions.close()


class _Pool:
    """Up to `size` long-lived processes; the next request replaces one that ended."""

    def __init__(self, size: int, deadline_s: float) -> None:
        self._free = asyncio.Semaphore(size)
        self._deadline_s = deadline_s
        self._idle: list[Process] = []
        self._running: set[Process] = set()

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._running]

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request to a free process.

        Raises `NotAPicture` if the picture is refused or ends its process, `Overloaded` after `WAIT_S`.
        """
        async with _turn(self._free):
            # the first process may have been killed while idle; if the second ends as well, the picture is the
            # cause
            answer = await self._attempt(request) or await self._attempt(request) or {"refused": UNREADABLE}
        if "refused" in answer:
            raise NotAPicture(answer["refused"])
        return answer

    async def close(self) -> None:
        for process in list(self._running):
            await self._end(process)

    async def _attempt(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """Return the response; None if the process ended for another reason than a time limit."""
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
