"""Slow subscribers, unavailable views, and the end of the process."""

import asyncio
import os
import re
import resource
import signal
import socket
import sys
from pathlib import Path

import httpx
import pytest

from libs.contracts.topics import CATALOGUE_PARTITIONS
from libs.deployment.settings import DeploymentAddresses
from libs.local_stack.ports import free_ports
from libs.local_stack.servers import Servers
from libs.tally.errors import ViewsUnavailable
from libs.web.server import http_service as web_service
from tests.services.query.query_environment import PARTITIONS, QueryEnvironment, song
from tests.services.query.streams.stream_clients import (
    COUNTS,
    PUBLIC_STREAM,
    STREAM,
    EndOfStream,
    Service,
    Stream,
    served,
)
from tests.support.clients import commands
from tests.support.clients.http_clients import http_client
from tests.support.clients.retried import final_answer
from tests.support.eventually import eventually
from tests.support.servers.freshness import make_fresh

PARTICIPANTS = 100
"""So many that a few events fill a connection that is not read."""
LISTENERS = 100


async def long_contest(env: QueryEnvironment) -> str:
    """A contest whose counts are long."""
    key = await song(env, "")
    for number in range(PARTICIPANTS):
        await env.production.enter("song", f"p{number}")
    return key


async def silent_client(service: Service, key: str) -> socket.socket:
    """A client that asks for a stream and reads nothing of it, over a connection that holds little."""
    listening = service.server.servers[0].sockets[0]
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, listening.getsockname())
    await loop.sock_sendall(
        client, f"GET {STREAM} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n".encode()
    )
    return client


async def test_a_slow_reader_holds_nobody_back_and_hears_what_is_latest(service: Service) -> None:
    env, votes = service.env, 12
    key = await long_contest(env)
    client = await silent_client(service, key)
    async with service.listen(STREAM, key) as stream:
        for number in range(1, votes + 1):
            await env.vote("p0", voter=f"v{number}")
            await stream.counts(number)
    received: list[int] = []
    text = ""
    async with asyncio.timeout(60):
        while not received or received[-1] < votes:
            text += (await asyncio.get_running_loop().sock_recv(client, 1 << 16)).decode()
            received = [int(found) for found in re.findall(r'"contest_key":"song".*?"count":(\d+),"an', text)]
    client.close()
    assert received == sorted(received)
    assert 1 < len(received) < votes


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux cuts such a connection off")
async def test_who_takes_nothing_is_cut_off(env: QueryEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_service, "STUCK_S", 1)
    key = await long_contest(env)
    async with served(env) as service:
        client = await silent_client(service, key)
        async with service.listen(STREAM, key) as stream:
            for number in range(1, 9):
                await env.vote("p0", voter=f"v{number}")
                await stream.counts(number)
            await eventually(lambda: len(service.server.server_state.connections) == 1)
            await env.vote("p0", voter="v9")
            await stream.counts(9)
        client.close()


async def fresh_again(env: QueryEnvironment) -> bool:
    """As a projector makes them after a restart; False over a connection of before."""
    try:
        for partition in range(CATALOGUE_PARTITIONS):
            await make_fresh(env.production.views.fresh, partition)
    except ViewsUnavailable:
        return False
    return True


async def test_streams_outlive_the_views_and_say_that_nobody_can_tell(
    service: Service, key: str, stream: Stream, breakable: Servers
) -> None:
    env = service.env
    await breakable.kill("valkey")
    try:
        stale = await stream.next()
        assert (stale.name, list(stale.data)) == ("stale", ["since"])
        async with service.listen(STREAM, key) as late:
            assert late.response.status_code == 503
    finally:
        await breakable.restart("valkey")
    await eventually(lambda: fresh_again(env))
    assert (await stream.next()).name == "phase"
    assert (await stream.next()).data["count"] == 0

    async def has_voted() -> bool:
        try:  # over a connection of before
            return bool(await env.vote("a"))
        except ViewsUnavailable:
            return False

    await eventually(has_voted)
    assert (await stream.next()).data["count"] == 1


async def test_views_that_lost_their_data_are_no_contest_that_is_gone(
    env: QueryEnvironment, stream: Stream
) -> None:
    await env.lose_everything()
    assert (await stream.next()).name == "stale"


def allow_few_files() -> None:
    """As shells do."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, most))


async def test_a_process_updates_many_subscribers_and_disconnects_them_when_it_is_stopped(
    env: QueryEnvironment, key: str, valkey_address: str, namespace: str, tmp_path: Path
) -> None:
    """Also without Kafka: the process is not ready then, and its counts are read."""
    [port] = free_ports(1)
    addresses = DeploymentAddresses("127.0.0.1:1", valkey_address, namespace, PARTITIONS, str(tmp_path), {})
    environment = (
        os.environ | commands.environment(addresses) | {"TALLY_PORT": str(port), "TALLY_DRAIN_DELAY_S": "0"}
    )
    command = sys.executable, "-m", "services.query"
    process = await asyncio.create_subprocess_exec(*command, env=environment, preexec_fn=allow_few_files)
    headers = {"authorization": f"Bearer {key}"}
    limits = httpx.Limits(max_connections=None)
    url = f"http://127.0.0.1:{port}"
    async with http_client(base_url=url, headers=headers, timeout=60, limits=limits) as client:

        async def listen(number: int) -> None:
            path = PUBLIC_STREAM if number % 3 == 0 else f"{COUNTS}/stream?sources={number % 3 == 1}"
            async with client.stream("GET", path) as response:
                stream = Stream(response)
                await stream.counts(0)
                ready.release()
                await stream.counts(3)
                ready.release()
                with pytest.raises(EndOfStream):
                    await stream.next("counts", "results")

        async def all_are_ready() -> None:
            async with asyncio.timeout(60):
                for _ in range(LISTENERS):
                    await ready.acquire()

        assert (await final_answer(lambda: client.get(COUNTS))).status_code == 200
        ready = asyncio.Semaphore(0)
        listening = asyncio.gather(*(listen(number) for number in range(LISTENERS)))
        await all_are_ready()
        for number in range(3):
            await env.vote("a", voter=f"v{number}")
        await all_are_ready()
        process.send_signal(signal.SIGTERM)
        await listening
        assert await asyncio.wait_for(process.wait(), 60) == 0
