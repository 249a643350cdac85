"""Forced exit of a projector with a task that ignores its cancellation."""

import asyncio
import signal
import sys

import pytest

PROGRAM = """
import asyncio, contextlib
import uvloop
from services.projector import __main__ as projector
from services.projector.settings import Settings

projector.GRACE_S = 0.5

async def deaf(*_):
    print("ready", flush=True)
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)

projector.run = deaf
uvloop.run(projector.main(Settings()))
"""


async def test_what_ignores_its_cancellation_does_not_hold_up_the_end(pytestconfig: pytest.Config) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=pytestconfig.rootpath,
    )
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        _, said = await asyncio.wait_for(process.communicate(), 60)
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 1
    assert b"deaf" in said
