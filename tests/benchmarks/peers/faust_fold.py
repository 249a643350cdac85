# /// script
# requires-python = ">=3.11"
# dependencies = ["faust-streaming[rocksdict]==0.15.3"]
# ///
"""Counts votes and unique voters per participant and source with Faust.

A table must be changed by agents whose stream is partitioned by its keys (user guide, "Tables: co-partitioning"),
so the counts are kept by a second agent behind a topic. The guide advises RocksDB tables in production, a larger
`stream_buffer_maxsize` for throughput, and a linger and larger batches of the producer.

Arguments: bootstrap servers, topic, group, state directory.
"""

import sys
from typing import Any

import faust

KAFKA, TOPIC, GROUP, STATE_DIR = sys.argv[1:]
app = faust.App(
    GROUP,
    broker=f"kafka://{KAFKA}",
    store="rocksdb://",
    datadir=STATE_DIR,
    topic_partitions=16,
    topic_replication_factor=1,
    consumer_auto_offset_reset="earliest",
    broker_commit_interval=1.0,
    broker_max_poll_records=2_000,
    stream_buffer_maxsize=16_384,
    producer_linger=0.02,
    producer_max_batch_size=131_072,
    web_enabled=False,
)
events = app.topic(TOPIC, key_type=str, key_serializer="raw", value_serializer="json")
counted = app.topic(
    f"{GROUP}-counted", key_type=str, key_serializer="raw", value_serializer="json", partitions=16, internal=True
)
voters = app.Table("voters", default=list, options={"driver": "rocksdict"}, partitions=16)
counts = app.Table("counts", default=lambda: [0, 0], options={"driver": "rocksdict"}, partitions=16)


@app.agent(events)  # type: ignore[untyped-decorator]
async def of_voter(stream: Any) -> None:
    async for voter, event in stream.items():
        if event["type"] != "VoteCast":
            continue
        [[participant, count]] = event["choices"]
        name = f"{participant}/{event['source']}"
        voted = voters[voter]
        if is_new := name not in voted:
            voters[voter] = [*voted, name]
        await counted.send(key=name, value=[count, int(is_new)])


@app.agent(counted)  # type: ignore[untyped-decorator]
async def add(stream: Any) -> None:
    async for name, (votes, new) in stream.items():
        before = counts[name]
        counts[name] = [before[0] + votes, before[1] + new]


if __name__ == "__main__":
    sys.argv = ["faust", "worker", "-l", "error", "--without-web"]
    app.main()
