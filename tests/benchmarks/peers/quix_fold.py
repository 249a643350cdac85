# /// script
# requires-python = ">=3.11"
# dependencies = ["quixstreams==3.28.1"]
# ///
"""Counts votes and unique voters per participant and source with Quix Streams.

State of Quix Streams belongs to a message's key, so the counts need a second stage behind `group_by`, as its
documentation on stateful processing says. Both stages keep state in RocksDB with changelog topics. Its guide on
configuration names `commit_interval` for the pace of checkpoints and librdkafka's settings for throughput.

Arguments: bootstrap servers, topic, group, state directory.
"""

import sys
from typing import Any

from quixstreams import Application, State

KAFKA, TOPIC, GROUP, STATE_DIR = sys.argv[1:]
app = Application(
    KAFKA,
    consumer_group=GROUP,
    auto_offset_reset="earliest",
    commit_interval=1.0,
    state_dir=STATE_DIR,
    producer_extra_config={"linger.ms": 20, "compression.type": "lz4"},
    loglevel="ERROR",
)


def of_voter(event: dict[str, Any], state: State) -> dict[str, Any]:
    """Return the vote, and whether the voter is new to this participant and source."""
    [[participant, count]] = event["choices"]
    counted = f"{participant}/{event['source']}"
    voted = state.get("voted", [])
    if is_new := counted not in voted:
        state.set("voted", [*voted, counted])
    return {"counted": counted, "count": count, "new": int(is_new)}


def add(vote: dict[str, Any], state: State) -> None:
    votes, voters = state.get("counts", (0, 0))
    state.set("counts", (votes + vote["count"], voters + vote["new"]))


votes = app.dataframe(app.topic(TOPIC, key_deserializer="str", value_deserializer="json"))
votes = votes.filter(lambda event: event["type"] == "VoteCast")
votes = votes.apply(of_voter, stateful=True).group_by("counted")
votes.update(add, stateful=True)

if __name__ == "__main__":
    app.run()
