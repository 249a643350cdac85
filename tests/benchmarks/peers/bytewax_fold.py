# /// script
# requires-python = ">=3.11"
# dependencies = ["bytewax==0.21.1", "confluent-kafka==2.16.1"]
# ///
"""Counts votes and unique voters per participant and source with bytewax, up to the end of the topic.

`stateful_map` by voter, then by participant and source; state and offsets are kept by snapshots in a recovery
store, as its guide on recovery says. Its Kafka connector advises a larger `batch_size` for throughput.

Arguments: bootstrap servers, topic, state directory.
"""

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

from bytewax import operators as op
from bytewax.connectors.kafka import KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main
from bytewax.testing import TestingSink

KAFKA, TOPIC, STATE_DIR = sys.argv[1:]
Vote: TypeAlias = tuple[str, int, int]


def of_voter(voted: set[str] | None, event: dict[str, Any]) -> tuple[set[str], Vote]:
    [[participant, count]] = event["choices"]
    name = f"{participant}/{event['source']}"
    voted = voted or set()
    is_new = name not in voted
    voted.add(name)
    return voted, (name, count, int(is_new))


def add(counts: tuple[int, int] | None, vote: Vote) -> tuple[tuple[int, int], tuple[int, int]]:
    votes, voters = counts or (0, 0)
    counts = votes + vote[1], voters + vote[2]
    return counts, counts


flow = Dataflow("fold")
source = KafkaSource([KAFKA], [TOPIC], tail=False, batch_size=1_000)
events = op.input("log", flow, source)
events = op.map("decode", events, lambda message: json.loads(message.value))
events = op.filter("cast", events, lambda event: event["type"] == "VoteCast")
events = op.key_on("by voter", events, lambda event: event["voter"])
votes = op.key_rm("votes", op.stateful_map("of voter", events, of_voter))
counted = op.key_on("by participant", votes, lambda vote: vote[0])
counts = op.stateful_map("add", counted, add)
op.output("out", op.filter("nothing", counts, lambda _: False), TestingSink([]))

if __name__ == "__main__":
    Path(STATE_DIR).mkdir(parents=True, exist_ok=True)
    init_db_dir(Path(STATE_DIR), 1)
    recovery = RecoveryConfig(STATE_DIR, backup_interval=timedelta(0))
    cli_main(flow, epoch_interval=timedelta(seconds=1), recovery_config=recovery)
