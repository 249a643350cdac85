"""Scenarios of external sources: reports at several gateways, and around the close of their contest."""

from libs.contracts.topics import source_log_key
from tests.simulation.contests import moment
from tests.simulation.deployment import SOURCE_GRACE_S
from tests.simulation.sources import SOURCES, some_report
from tests.simulation.stage import CONTEST, Stage


async def report_twice(s: Stage) -> None:
    """A gateway is frozen with a report, or its records are lost or doubled; another one is sent the id."""
    rng = s.rng
    for number in range(3):
        source, report = rng.choice(SOURCES), some_report(rng, f"report{number}")
        again = report if rng.random() < 0.6 else some_report(rng, report.report_id)
        frozen = s.freeze_at(rng.choice(["votes_source", "append"]), s.first)
        s.report(source, report, s.first, 3)
        await frozen
        with s.faulty(doubled=rng.choice([0.0, 0.7]), refused=rng.choice([0.0, 0.0, 0.5])):
            s.report(source, again, s.second, 3)
            await s.pause(0.0, 0.4)
        s.thaw(s.first)
        await s.pause(0.0, 0.5)


async def report_late(s: Stage) -> None:
    """The contest ends; its sources report until their time is over, one by a gateway that was frozen."""
    rng, source = s.rng, s.rng.choice(SOURCES)
    end = s.now + rng.uniform(0.3, 0.8)
    if rng.random() < 0.3:
        await s.retire(rng.choice(SOURCES))
    await s.patch(end=moment(end))
    await s.report(source, some_report(rng, "first"), None, 3)
    await s.sleep_until(end + rng.uniform(-0.2, SOURCE_GRACE_S))
    frozen = s.freeze_at("votes_source", s.first)
    s.report(source, some_report(rng, "held"), s.first, 3)
    await frozen
    s.report(source, some_report(rng, "other"), s.second, 3)
    partition = s.world.votes_topic.partition_of(source_log_key(CONTEST, source))

    async def closed() -> bool:
        return bool((await s.votes.source(partition, CONTEST, source, ())).closed)

    await s.until(closed, 7.0)
    if rng.random() < 0.4:
        await s.reopen(rng.choice([4.0, 300.0]))
    s.thaw(s.first)
    await s.pause(0.0, 1.0)
    for number in range(2):
        s.report(source, some_report(rng, f"late{number}"), None, 2)
        await s.pause(0.0, 0.3)
