"""A page of 100 records out of 100, and out of 100,000: the first, one in the middle, and filtered.

`python -m tests.benchmarks.bench_lists [records]`. Two accounts, one with few records and one with many; their
pages are read in turn, so that what else the machine does touches both alike.
"""

import asyncio
import statistics
import sys
import time
from typing import Any

import httpx
import orjson

from libs.catalogue.api_examples import EXAMPLES
from libs.contracts.catalogue_events import RecordCreated, catalogue_codec
from libs.contracts.topics import catalogue_topic
from libs.kafka.settings import KafkaSettings
from libs.kafka.writer import LogWriter
from libs.local_stack.supervisor import Supervisor
from tests.benchmarks.stack import whole_service
from tests.support.eventually import eventually
from tests.support.purchases_over_http import client_with

FEW = 100
PAGE = 100
ROUNDS = 200
AT_ONCE = 2_000


async def fill(supervisor: Supervisor, account: str, records: int) -> None:
    """Straight into the log: over HTTP each record waits for the fold."""
    told = supervisor.stack
    topic = catalogue_topic(told["namespace"])
    partition, record = topic.partition_of(account), orjson.dumps(EXAMPLES["articles"]).decode()
    log = LogWriter(KafkaSettings(kafka_bootstrap_servers=told["kafka"]))
    await log.start()
    for first in range(0, records, AT_ONCE):
        events = [
            RecordCreated(
                account=account,
                command_id=f"{account}.{number}",
                at=time.time_ns() // 1000,
                resource="articles",
                key=f"article{number}",
                record=record,
            )
            for number in range(first, min(first + AT_ONCE, records))
        ]
        await asyncio.gather(
            *(
                log.append(topic.name, partition, catalogue_codec.encode(event), account.encode())
                for event in events
            )
        )
    await log.stop()


async def folded(client: httpx.AsyncClient, records: int) -> None:
    async def look() -> bool:
        return (await client.get(f"/articles/article{records - 1}")).status_code == 200

    await eventually(look, deadline_s=600, every_s=0.2)


async def timed(client: httpx.AsyncClient, query: dict[str, Any]) -> float:
    begun = time.perf_counter()
    answer = await client.get("/articles", params={"limit": PAGE} | query)
    took = time.perf_counter() - begun
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["data"]) == PAGE
    return took * 1000


async def middle(client: httpx.AsyncClient, records: int) -> str:
    """A token with half of the records behind it."""
    token = ""
    for _ in range(records // PAGE // 2):
        query = {"limit": str(PAGE)} | ({"next": token} if token else {})
        token = (await client.get("/articles", params=query)).json()["next"]
    return token


async def main(records: int) -> None:
    async with whole_service() as (supervisor, _):
        permissions = ("content:read", "content:write")
        few, many = [await client_with(supervisor, account, *permissions) for account in ("few", "many")]
        for client, account, number in ((few, "few", FEW), (many, "many", records)):
            begun = time.perf_counter()
            await fill(supervisor, account, number)
            await folded(client, number)
            print(f"{number} records folded in {time.perf_counter() - begun:.1f} s", flush=True)
        since = "2000-01-01T00:00:00Z"
        queries: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
            "first page": ({}, {}),
            "middle page": ({}, {"next": await middle(many, records)}),
            "tags": ({"tags": "news"}, {"tags": "news"}),
            "updated_since": ({"updated_since": since}, {"updated_since": since}),
        }
        for name, (of_few, of_many) in queries.items():
            times: tuple[list[float], list[float]] = ([], [])
            for _ in range(ROUNDS):
                times[0].append(await timed(few, of_few))
                times[1].append(await timed(many, of_many))
            for number, one in zip((FEW, records), times, strict=True):
                p50, p99 = statistics.median(one), statistics.quantiles(one, n=100)[98]
                print(f"{name:14} of {number:7}   p50 {p50:6.2f} ms   p99 {p99:6.2f} ms", flush=True)
        await few.aclose()
        await many.aclose()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000))
