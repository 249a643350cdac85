"""The disturbances of the network, between this process and an echo server of its own."""

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from tests.support.eventually import eventually
from tests.support.servers.network import LOOPBACK, Break, Network, Rule, delayed, held, lossy, open_network, slow

ME, SERVER = ("me",), ("server",)


@asynccontextmanager
async def echo() -> AsyncIterator[tuple[Network, int, list[asyncio.StreamWriter]]]:
    """Yield a network, the port of the proxy before the server, and the server's connections."""
    connections: list[asyncio.StreamWriter] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        while data := await reader.read(1 << 16):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(answer, LOOPBACK, 0)
    async with server, open_network(lambda: {"me": os.getpid()}) as network:
        yield network, await network.open(server.sockets[0].getsockname()[1], *SERVER), connections


async def asked(stream: tuple[asyncio.StreamReader, asyncio.StreamWriter], text: bytes) -> bytes:
    stream[1].write(text)
    return await stream[0].readexactly(len(text))


async def forever(stream: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
    while True:
        await asked(stream, b"12345678")


async def test_bytes_pass_until_a_rule_holds_them_and_again_after_it() -> None:
    async with echo() as (network, port, _):
        stream = await asyncio.open_connection(LOOPBACK, port)
        assert await asked(stream, b"before") == b"before"
        rule = Rule(ME, SERVER, held)
        with network.disturbed(rule):
            waiting = asyncio.create_task(asked(stream, b"held"))
            await eventually(lambda: rule.bit)
            assert rule.held == {("me", "server"): 4}
        assert await waiting == b"held"


async def test_only_the_direction_of_a_rule_is_disturbed() -> None:
    async with echo() as (network, port, connections):
        stream = await asyncio.open_connection(LOOPBACK, port)
        await asked(stream, b"before")
        with network.disturbed(Rule(ME, SERVER, held)):
            stream[1].write(b"held")
            connections[0].write(b"passes")
            assert await stream[0].readexactly(6) == b"passes"


async def test_processes_that_a_rule_does_not_name_are_undisturbed() -> None:
    async with echo() as (network, port, _):
        with network.disturbed(Rule(("other",), SERVER, held), Rule(("other",), SERVER, Break.CUT)):
            assert await asked(await asyncio.open_connection(LOOPBACK, port), b"passes") == b"passes"


async def test_a_cut_ends_connections_and_refuses_new_ones() -> None:
    async with echo() as (network, port, _):
        stream = await asyncio.open_connection(LOOPBACK, port)
        await asked(stream, b"before")
        rule = Rule(ME, SERVER, Break.CUT)
        with network.disturbed(rule):
            assert not await stream[0].read()
            refused, _ = await asyncio.open_connection(LOOPBACK, port)
            assert not await refused.read()
        assert rule.ended == {("me", "server"): 2}
        assert await asked(await asyncio.open_connection(LOOPBACK, port), b"after") == b"after"


async def test_a_reset_comes_in_the_middle_of_a_reply() -> None:
    async with echo() as (network, port, _):
        stream = await asyncio.open_connection(LOOPBACK, port)
        rule = Rule(SERVER, ME, Break.RESET)
        with network.disturbed(rule), pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(forever(stream), 60)
        assert rule.ended == {("server", "me"): 1}


async def test_of_a_half_open_connection_only_one_end_is_gone() -> None:
    async with echo() as (network, port, connections):
        stream = await asyncio.open_connection(LOOPBACK, port)
        await asked(stream, b"before")
        rule = Rule(ME, SERVER, Break.HALF_OPEN)
        with network.disturbed(rule):
            await eventually(connections[0].is_closing)
            assert rule.ended == {("me", "server"): 1}
            stream[1].write(b"lost")
            await eventually(lambda: rule.held == {("me", "server"): 4})
            assert not stream[0].at_eof()
            assert await asked(await asyncio.open_connection(LOOPBACK, port), b"new") == b"new"
        assert not await stream[0].read()


async def test_all_bytes_arrive_in_order_however_slow_the_link_is() -> None:
    async with echo() as (network, port, _):
        stream = await asyncio.open_connection(LOOPBACK, port)
        sent = Random(1).randbytes(50_000)
        for pace in (delayed(0.05), slow(500_000), lossy(0.1, Random(2))):
            rule = Rule(ME, SERVER, pace)
            with network.disturbed(rule):
                began = time.monotonic()
                assert await asked(stream, sent) == sent
                assert time.monotonic() - began > 0.04
            assert rule.held == {("me", "server"): len(sent)}


async def test_a_process_that_ends_is_not_noticed_while_its_bytes_are_held() -> None:
    async with echo() as (network, port, connections):
        stream = await asyncio.open_connection(LOOPBACK, port)
        await asked(stream, b"before")
        with network.disturbed(Rule(ME, SERVER, held)):
            stream[1].close()
            await stream[1].wait_closed()
            other = await asyncio.open_connection(LOOPBACK, port)
            connections[0].write(b"to nobody")
            assert not connections[0].is_closing()
        await eventually(connections[0].is_closing)
        assert await asked(other, b"after") == b"after"


async def test_a_connection_that_is_closed_before_its_process_is_looked_for_reaches_nobody() -> None:
    """Nobody is searched for it: members of a cluster could reconnect faster than they are found."""
    async with echo() as (_, port, connections):
        socket.create_connection((LOOPBACK, port)).close()
        stream = await asyncio.open_connection(LOOPBACK, port)
        assert await asked(stream, b"after") == b"after"
        assert len(connections) == 1
