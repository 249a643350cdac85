"""Looks at servers: a slow command is told from slow servers."""

import asyncio
import time

from services.cli.present_servers import BUSY_PATIENCE, PROBE_S, look


async def test_a_silence_is_looked_at_again_only_where_the_command_itself_was_slow() -> None:
    asked: list[tuple[str, float]] = []

    async def busy(patience: float) -> bool:
        asked.append(("busy", patience))
        until = time.monotonic() + PROBE_S + 0.1
        while patience == 1 and time.monotonic() < until:
            pass
        return patience == 1

    async def waits(patience: float) -> bool:
        asked.append(("waits", patience))
        await asyncio.sleep(PROBE_S + 0.1)
        return True

    async def well(patience: float) -> bool:
        asked.append(("well", patience))
        return False

    assert [await look(once, bool) for once in (busy, waits, well)] == [False, True, False]
    assert asked == [("busy", 1), ("busy", BUSY_PATIENCE), ("waits", 1), ("well", 1)]
