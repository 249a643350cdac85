"""A process whose event loop hangs ends by itself; one whose loop turns does not."""

import asyncio
import sys

import pytest

PROGRAM = """
import asyncio, sys, time
from libs.concurrency.forced_exit import exit_if_hanging

def hang():
    while True:
        time.sleep(0.01)

async def main():
    async with exit_if_hanging(5):
        await asyncio.sleep(6)
        print("alive", flush=True)
        if sys.argv[1] == "hang":
            hang()
    time.sleep(1)

asyncio.run(main())
"""


@pytest.mark.pure
@pytest.mark.parametrize("way", ["hang", "go on"])
async def test_a_process_ends_if_its_event_loop_hangs(way: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, way), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(60):
            output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert output == b"alive\n"
    assert process.returncode == (1 if way == "hang" else 0)
    assert (b"in hang" in errors) is (way == "hang")
