"""Deletes the Valkey functions of versions that no process uses any more."""

import asyncio
import logging
import re
import time
from typing import Final, NamedTuple

from libs.tally.errors import ViewsUnavailable
from libs.views.client import Valkey
from libs.views.connection import NotPermitted
from libs.views.function_libraries import version

POLL_S: Final = 600.0
UNUSED_S: Final = 86_400.0
"""Time without a call after which a version is deleted: a process that still needs it loads it again."""
LOADED_NAME: Final = re.compile(r"tally_(\w+)_([0-9a-f]+)")

logger = logging.getLogger(__name__)


class _Use(NamedTuple):
    """Sum of a version's uses, and the time at which it was first seen (s)."""

    total: int
    since: float


class FunctionExpiry:
    """Deletes other versions' libraries after a day without use of any of them. Several processes do no harm.

    Each library counts its uses in the server's memory, by all processes of all namespaces. Readiness checks
    and idle projectors use theirs each second or so. The day begins again after a restart of this process or of
    Valkey.
    """

    def __init__(self, valkey: Valkey, unused_s: float = UNUSED_S, poll_s: float = POLL_S) -> None:
        self._valkey = valkey
        self._unused_s = unused_s
        self._poll_s = poll_s
        self._seen: dict[tuple[int, str], _Use] = {}

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            try:
                await self.check(time.monotonic())
            except NotPermitted as error:
                logger.warning("unused functions stay in Valkey: %s", error)
            except ViewsUnavailable as error:
                logger.info("unused functions cannot be checked now: %s", error)
            await asyncio.sleep(self._poll_s)

    async def check(self, now: float) -> None:
        """Compare the uses with those seen before, and delete what has been unused for long enough."""
        for number, shard in enumerate(await self._valkey.shards()):
            for other, names in (await loaded_libraries(shard.valkey)).items():
                if other == version():
                    continue
                total = sum([await shard.valkey.call("FCALL_RO", f"{name}_uses_{other}", 0) for name in names])
                seen = self._seen.get((number, other))
                if seen is None or seen.total != total:
                    self._seen[number, other] = _Use(total, now)
                elif now - seen.since >= self._unused_s:
                    for name in names:
                        await shard.valkey.call("FUNCTION", "DELETE", f"tally_{name}_{other}")
                    logger.info("deleted the unused functions of version %s", other)


async def loaded_libraries(server: Valkey) -> dict[str, list[str]]:
    """Return the names of the libraries that a server has, by version."""
    found: dict[str, list[str]] = {}
    for flat in await server.call("FUNCTION", "LIST", "LIBRARYNAME", "tally_*"):
        library = dict(zip(flat[::2], flat[1::2], strict=True))[b"library_name"].decode()
        if parts := LOADED_NAME.fullmatch(library):
            found.setdefault(parts[2], []).append(parts[1])
    return found
