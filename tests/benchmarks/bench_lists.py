"""A page of 100 records out of 100, and out of 100,000: the first, one in the middle, and filtered.

`python -m tests.benchmarks.bench_lists [--size quick|full]`. Two accounts, one with few
records and one with many; their pages are read in turn, so that another load touches both alike.
"""

import asyncio
import statistics
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
from tests.benchmarks.alone import alone
from tests.benchmarks.measurement import OURS, Measurement, Party, Run, Scale
from tests.benchmarks.stack import whole_service
from tests.support.eventually import eventually
from tests.support.stack_keys import client_with

FEW = 100
PAGE = 100
AT_ONCE = 2_000


async def fill(supervisor: Supervisor, account: str, records: int) -> None:
    """Straight into the log: over HTTP each record waits for the fold."""
    addresses = supervisor.stack
    topic = catalogue_topic(addresses["namespace"])
    partition, record = topic.partition_of(account), orjson.dumps(EXAMPLES["articles"]).decode()
    log = LogWriter(KafkaSettings(kafka_bootstrap_servers=addresses["kafka"]))
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


async def measure(scale: Scale) -> list[Measurement]:
    records, rounds = scale.pick(1_000, 100_000), scale.pick(10, 200)
    async with whole_service() as (supervisor, _):
        permissions = ("content:read", "content:write")
        few, many = [await client_with(supervisor, account, *permissions) for account in ("few", "many")]
        for client, account, number in ((few, "few", FEW), (many, "many", records)):
            await fill(supervisor, account, number)
            await folded(client, number)
        since = "2000-01-01T00:00:00Z"
        queries: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
            "first page": ({}, {}),
            "middle page": ({}, {"next": await middle(many, records)}),
            "tags": ({"tags": "news"}, {"tags": "news"}),
            "updated_since": ({"updated_since": since}, {"updated_since": since}),
        }
        found = []
        for name, (of_few, of_many) in queries.items():
            times: tuple[list[float], list[float]] = ([], [])
            for _ in range(rounds):
                times[0].append(await timed(few, of_few))
                times[1].append(await timed(many, of_many))
            small, large = map(run_of, times)
            peer = Party(f"{FEW} records", [small])
            found.append(
                Measurement(f"{name} of {records:,} records: p50", "ms", "lower", Party(OURS, [large]), [peer])
            )
        await few.aclose()
        await many.aclose()
    return found


def run_of(times: list[float]) -> Run:
    return Run(statistics.median(times), also={"p99 ms": statistics.quantiles(times, n=100)[98]})


if __name__ == "__main__":
    alone("Lists of records", measure)
