"""Hostile clients of one kind, in a process of their own: `python -m tests.benchmarks.hostile_clients PORT KIND`.

They print a line once each has connected, go on until their input ends, and connect again where they are closed.
"""

import asyncio
import random
import resource
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import uvloop

CONNECTIONS: Final = 10_000
BY_ADDRESS: Final = 250
"""Connections from each loopback address."""
PAUSE_S: Final = 5.0
"""Time between two sends of a client."""
AWAY_S: Final = 30.0
"""Time in which all connect, and after which one that was closed connects again: they hold connections. A flood of
new ones would measure how many requests a second a gateway answers."""
AT_ONCE: Final = 100
HEAD: Final = b"POST /contests HTTP/1.1\r\nHost: here\r\n"
GET: Final = b"GET /livez HTTP/1.1\r\nHost: here\r\n\r\n"
KINDS: Final[Mapping[str, tuple[bytes, bytes]]] = {
    "idle": (b"", b""),
    "slow headers": (HEAD, b"X"),
    "slow body": (HEAD + b"Content-Length: 100000\r\n\r\n", b"x"),
    "endless chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1;" + b"x" * 2000 + b"\r\nx\r\n"),
    "junk behind a request": (GET + b"\r\n" * 40_000, b""),
    "pipelined requests": (GET * 100, GET),
    "upgrades with a body": (
        HEAD + b"Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 45\r\n\r\n" + GET,
        b"x",
    ),
    "unread responses": (GET.replace(b"/livez", b"/openapi.json"), b""),
}
"""What a client sends first, and then again and again."""


async def attack(port: int, number: int, kind: str, opening: asyncio.Semaphore, connected: asyncio.Event) -> None:
    first, again = KINDS[kind]
    await asyncio.sleep(random.uniform(0, AWAY_S))
    address = f"127.1.{number // BY_ADDRESS // 250}.{number // BY_ADDRESS % 250 + 1}"
    while True:
        with suppress(OSError):
            async with opening:
                reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
            connected.set()
            if kind == "unread responses":
                writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(first)
            while not reader.at_eof() and not writer.transport.is_closing():
                await asyncio.sleep(PAUSE_S)
                writer.write(again)
            writer.transport.abort()
        connected.set()
        await asyncio.sleep(AWAY_S)


async def main(port: int, kind: str) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    opening = asyncio.Semaphore(AT_ONCE)
    connected = [asyncio.Event() for _ in range(CONNECTIONS)]
    attacks = [
        asyncio.create_task(attack(port, number, kind, opening, event)) for number, event in enumerate(connected)
    ]
    await asyncio.gather(*(event.wait() for event in connected))
    print("connected", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    for each in attacks:
        each.cancel()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), sys.argv[2]))
