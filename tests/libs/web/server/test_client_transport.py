"""Responses are written at once and completely."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from libs.web.server.client_transport import ClientTransport
from tests.libs.web.server.driven_connection import END, Socket

HEAD, BODY = b"HTTP/1.1 201 Created\r\n\r\n", b"body"


@pytest.fixture
def socket() -> Socket:
    return Socket()


@pytest.fixture
def transport(socket: Socket) -> ClientTransport:
    protocol: Any = SimpleNamespace()
    return ClientTransport(protocol, socket)


async def test_head_and_body_of_a_response_are_one_write(transport: ClientTransport, socket: Socket) -> None:
    for _ in range(2):
        transport.write(HEAD)
        assert transport.has_written
        transport.write(BODY)
        transport.write(BODY)
        transport.has_written = False  # the response is complete
    await asyncio.sleep(0)
    assert socket.writes == [HEAD + BODY, BODY] * 2


async def test_a_head_that_nothing_follows_is_sent_by_itself(transport: ClientTransport, socket: Socket) -> None:
    transport.write(HEAD)
    assert socket.writes == []
    await asyncio.sleep(0)
    assert socket.writes == [HEAD]
    transport.write(BODY)
    assert socket.writes == [HEAD, BODY]


async def test_a_whole_response_comes_after_a_head_that_waits(transport: ClientTransport, socket: Socket) -> None:
    transport.write(HEAD)
    transport.has_written = False  # the response had no body
    transport.write_whole(HEAD + BODY)
    await asyncio.sleep(0)
    assert socket.writes == [HEAD + HEAD + BODY]


async def test_a_head_comes_before_the_end_and_the_close(transport: ClientTransport, socket: Socket) -> None:
    transport.write(HEAD)
    transport.finish()
    assert socket.writes == [HEAD, END]
    closing = ClientTransport(transport._protocol, socket)  # type: ignore[arg-type]
    closing.write(HEAD)
    closing.close_now()
    await asyncio.sleep(0)
    assert socket.writes == [HEAD, END, HEAD]
