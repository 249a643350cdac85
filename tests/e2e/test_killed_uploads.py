"""The gateway is killed during an upload: the old bytes stay, and nothing of the new ones does."""

import asyncio
import os
from collections.abc import AsyncIterator

import httpx
import pytest

from libs.local_stack.supervisor import Supervisor
from tests.e2e.test_files import objects
from tests.support.eventually import eventually
from tests.support.http_clients import http_client
from tests.support.retried import final_answer

BODY = {"filename": "a.bin", "file_type": "application/octet-stream", "file_extension": "bin"}
PIECE = bytes(6 << 20)


async def test_an_upload_that_the_gateway_did_not_survive_never_was(stack: Supervisor) -> None:
    key = {"Authorization": f"Bearer {stack.stack['api_key']}"}

    async with http_client(base_url=stack.stack["base_url"], timeout=30) as client:
        record = (await client.post("/files", json=BODY, headers=key)).json()
        url = record["upload_url"]
        assert (await client.put(url, content=b"old")).status_code == 204

        async def pieces() -> AsyncIterator[bytes]:
            yield PIECE
            yield PIECE
            await eventually(lambda: len(objects(stack, record)) == 2)
            await stack.kill("gateway")
            yield PIECE

        with pytest.raises(httpx.TransportError):
            await client.put(url, content=pieces())

        async def is_back() -> bool:
            try:
                answer = await client.get(url)
            except httpx.TransportError:
                return False
            return (answer.status_code, answer.content) == (200, b"old")

        await eventually(is_back)
        (half,) = (path for path in objects(stack, record) if path.stat().st_size > 3)
        os.utime(half, (1, 1))  # as though an hour had passed
        assert (await final_answer(lambda: client.put(url, content=b"new"))).status_code == 204
        assert [path.read_bytes() for path in objects(stack, record)] == [b"new"]
        again = await asyncio.gather(*(final_answer(lambda: client.put(url, content=PIECE)) for _ in range(3)))
        assert [answer.status_code for answer in again] == [204] * 3
        assert (await client.get(url)).content == PIECE
