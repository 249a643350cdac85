"""Bytes of a vote in the log, in Valkey's append-only file and on the network.

`python -m tests.benchmarks.bench_bytes`: votes come one a request from 256 clients, so batches of the log are as
large as under load. Traffic with Valkey is counted by Valkey; an HTTP exchange on a connection of its own.
"""

import asyncio
from urllib.parse import urlsplit

import orjson
from redis.asyncio import Redis

from libs.contracts.topics import votes_topic
from libs.local_stack.supervisor import Supervisor
from tests.benchmarks.alone import alone
from tests.benchmarks.bench_votes import vote_script
from tests.benchmarks.figures import ANSWER, APPEND_ONLY_FILE, FROM_VALKEY, LOG, REQUEST, TO_VALKEY
from tests.benchmarks.load import weighed
from tests.benchmarks.measurement import OURS, Measurement, Party, Run, Scale
from tests.benchmarks.stack import whole_service
from tests.support.clients.voting import Contest, running

CONNECTIONS = 256


async def measure(scale: Scale) -> list[Measurement]:
    async with whole_service() as (supervisor, api):
        script = await vote_script(api)
        await weighed([supervisor.stack["base_url"]], script, CONNECTIONS, scale.pick(1, 3), ())  # warms up
        before = await counted(supervisor)
        load = await weighed([supervisor.stack["base_url"]], script, CONNECTIONS, scale.pick(2, 5), ())
        after = await counted(supervisor)
        found = {name: (after[name] - before[name]) / load.requests for name in after}
        found |= await exchanged(await api.contest(body=running()))
    return [Measurement(name, "bytes", "lower", Party(OURS, [Run(value)])) for name, value in found.items()]


async def counted(supervisor: Supervisor) -> dict[str, int]:
    """Return what the servers have stored and exchanged so far."""
    topic = votes_topic(supervisor.stack["namespace"], supervisor.stack["partitions"])
    kafka = supervisor.data_dir / "kafka"
    async with Redis.from_url(supervisor.stack["valkey"]) as redis:
        stats, persistence = await redis.info("stats"), await redis.info("persistence")
    return {
        LOG: sum(file.stat().st_size for file in kafka.glob(f"**/{topic.name}-*/*.log")),
        APPEND_ONLY_FILE: persistence["aof_current_size"],
        TO_VALKEY: stats["total_net_input_bytes"],
        FROM_VALKEY: stats["total_net_output_bytes"],
    }


async def exchanged(contest: Contest) -> dict[str, float]:
    """Return the sizes of one vote's request and answer."""
    url = urlsplit(str(contest.client.base_url))
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    body = orjson.dumps({"participant_key": contest.participants[0], "voter_id": "u0123456789-012345"})
    head = (
        f"POST {contest.path}/votes HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Type: application/json\r\n"
        f"Authorization: {contest.client.headers['authorization']}\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    request = head.encode() + body
    writer.write(request)
    answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 201"), answer[:300]
    writer.close()
    return {REQUEST: len(request), ANSWER: len(answer)}


if __name__ == "__main__":
    alone("Bytes of a vote", measure)
