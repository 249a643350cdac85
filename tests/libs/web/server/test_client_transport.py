"""Responses are written at once and completely."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from libs.web.server.client_transport import ClientTransport

HEAD, BODY = b"HTTP/1.1 201 Created\r\n\r\n", b"body"


class Inner(asyncio.Transport):
    """Keeps what is written; `END` is the end of the sending side."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def write_eof(self) -> None:
        self.writes.append(b"END")

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed


@pytest.fixture
def inner() -> Inner:
    return Inner()


@pytest.fixture
def transport(inner: Inner) -> ClientTransport:
    protocol: Any = SimpleNamespace()
    return ClientTransport(protocol, inner)


async def test_head_and_body_of_a_response_are_one_write(transport: ClientTransport, inner: Inner) -> None:
    for _ in range(2):
        transport.write(HEAD)
        assert transport.has_written
        transport.write(BODY)
        transport.write(BODY)
        transport.has_written = False  # the response is complete
    await asyncio.sleep(0)
    assert inner.writes == [HEAD + BODY, BODY] * 2


async def test_a_head_that_nothing_follows_is_sent_by_itself(transport: ClientTransport, inner: Inner) -> None:
    transport.write(HEAD)
    assert inner.writes == []
    await asyncio.sleep(0)
    assert inner.writes == [HEAD]
    transport.write(BODY)
    assert inner.writes == [HEAD, BODY]


async def test_a_whole_response_comes_after_a_head_that_waits(transport: ClientTransport, inner: Inner) -> None:
    transport.write(HEAD)
    transport.has_written = False  # the response had no body
    transport.write_whole(HEAD + BODY)
    await asyncio.sleep(0)
    assert inner.writes == [HEAD + HEAD + BODY]


async def test_a_head_comes_before_the_end_and_the_close(transport: ClientTransport, inner: Inner) -> None:
    transport.write(HEAD)
    transport.finish()
    assert inner.writes == [HEAD, b"END"]
    closing = ClientTransport(transport._protocol, inner)  # type: ignore[arg-type]
    closing.write(HEAD)
    closing.close_now()
    await asyncio.sleep(0)
    assert inner.writes == [HEAD, b"END", HEAD]
