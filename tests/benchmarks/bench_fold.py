"""Fold of the votes log with exact uniques per source, against stream processors and plain commands.

`python -m tests.benchmarks.bench_fold [--size quick|full]`: voters who cast three votes each, for 100
participants, in 16 partitions; all fold the same topic, one after the other. A rate is measured between two
positions that the party itself has committed, so its start costs nothing; a slow one is stopped after a while. CPU
time is that of the party, of the broker, and of Valkey where it takes part.
"""

from libs.contracts.topics import votes_topic
from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import create_topics
from libs.local_stack.servers import Addresses
from tests.benchmarks.alone import alone
from tests.benchmarks.bench_projector import fold_all, fold_nothing
from tests.benchmarks.fold_peers import EXACTLY_ONCE, FAUST, GROUPS, QUIX, WHOLE, FoldPeer, Log
from tests.benchmarks.measurement import OURS, Goal, Measurement, Missing, Party, Run, Scale
from tests.benchmarks.peers.environments import Unavailable
from tests.benchmarks.stack import own_servers
from tests.benchmarks.votes_log import produce

PARTITIONS = 16
GOALS = (Goal(1.4, EXACTLY_ONCE, "cpu"), Goal(1.3, EXACTLY_ONCE), Goal(5.0, QUIX), Goal(50.0, FAUST))


async def measure(scale: Scale) -> list[Measurement]:
    events, few = scale.pick(60_000, 1_000_000), scale.pick(15_000, 100_000)
    limit_s = scale.pick(10.0, 25.0)
    async with own_servers(plain=True) as addresses:
        log, short = await filled(addresses, "bench", events), await filled(addresses, "short", few)
        ours = [await fold_all(addresses, log.topic, again) for again in range(scale.pick(1, 2))]
        ceiling = Party("read and decoded only", [await fold_nothing(addresses, log.topic)])
        peers = [await measured(peer, log, limit_s) for peer in GROUPS]
        peers.append(await measured(WHOLE, short, limit_s))
    found = [peer for peer in peers if isinstance(peer, Party)]
    missing = [peer for peer in peers if isinstance(peer, Missing)]
    name = f"fold of {events:,} votes"
    return [Measurement(name, "events/s", "higher", Party(OURS, ours), found, ceiling, GOALS, missing)]


async def filled(addresses: Addresses, namespace: str, events: int) -> Log:
    topic, settings = votes_topic(namespace, PARTITIONS), KafkaSettings(kafka_bootstrap_servers=addresses.kafka)
    await create_topics(settings, [topic])
    await produce(settings, topic, events)
    return Log(addresses, topic, events)


async def measured(peer: FoldPeer, log: Log, limit_s: float) -> Party | Missing:
    try:
        run: Run = await peer.run(log, limit_s)
    except Unavailable as reason:
        return Missing(peer.name, str(reason))
    return Party(peer.name, [run], peer.note)


if __name__ == "__main__":
    alone("Fold of the votes log", measure)
