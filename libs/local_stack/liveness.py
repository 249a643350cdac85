"""Probes of the services' `/livez`, from outside: a process whose event loop hangs ends by nothing else."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import httpx

from libs.web.server.tls import public_authorities

PROBE_S: Final = 30.0
"""Time that a process has for an answer, and between two probes. A gateway that 10,000 clients flooded, on a
machine with 35 runnable processes, answered after up to 20 s: it must not be restarted for that."""
UNANSWERED: Final = 6
"""Probes in a row without an answer after which a process is restarted: three minutes. They are counted, not
timed: a supervisor that is itself suspended asks again before it restarts."""


class Probed(Protocol):
    @property
    def pid(self) -> int | None: ...


async def watch_liveness(
    process: Probed, url: str, restart: Callable[[], Awaitable[None]], probe_s: float = PROBE_S
) -> None:
    """Call `restart` whenever the process does not answer `url` any more.

    A process that has not answered since its start is left alone: it is starting, or has no such address.
    """
    pid, unanswered = process.pid, -1
    async with httpx.AsyncClient(verify=public_authorities(), timeout=probe_s, trust_env=False) as client:
        while True:
            began = asyncio.get_running_loop().time()
            is_alive = await _answers(client, url)
            if process.pid != pid:
                pid, unanswered = process.pid, -1
            elif is_alive:
                unanswered = 0
            elif unanswered >= 0:
                unanswered += 1
            if pid is not None and unanswered >= UNANSWERED:
                await restart()
            await asyncio.sleep(max(0.0, began + probe_s - asyncio.get_running_loop().time()))


async def _answers(client: httpx.AsyncClient, url: str) -> bool:
    """Return whether the process answers, with any status."""
    try:
        await client.get(url)
    except httpx.HTTPError:
        return False
    return True
