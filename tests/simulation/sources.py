"""External sources: registered with their contests, changed and retired, and their reports."""

import asyncio
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

from libs.catalogue.contests.vote_sources import source_key
from libs.catalogue.resource_table import VOTE_SOURCES
from libs.voting.source_reports import SourceReport
from tests.simulation import clients
from tests.simulation.answers import Reported
from tests.simulation.contests import participant_key
from tests.simulation.deployment import ACCOUNT, Gateway

if TYPE_CHECKING:
    from tests.simulation.world import World

SOURCES: Final = "sms", "show"
IDS: Final = "A", "B", "C"


def registration(rng: Random, contest: str, mode: str) -> dict[str, Any]:
    """Return a source's registration; one of its ids may be mapped to nobody."""
    ids = IDS[: rng.choice([2, 3])]
    return {"mode": mode, "mapping": {mapped: participant_key(contest, rng.choice("ab")) for mapped in ids}}


def some_report(rng: Random, report_id: str) -> SourceReport:
    ids = rng.sample(IDS, rng.choice([1, 2, 3]))
    counts = tuple((mapped, rng.randrange(9), rng.choice([0, 2]), 0) for mapped in sorted(ids))
    return SourceReport(report_id, None, counts, allow_decrease=rng.random() < 0.2)


def report(world: "World", name: str, rng: Random) -> None:
    """Report, sometimes twice at once, and sometimes something else under the same id."""
    contest, source = world.some_contest(rng), rng.choice(SOURCES)
    sent = some_report(rng, f"report{rng.randrange(6)}")
    send(world, name, rng, contest, source, sent)
    for copy in range(rng.choice([0, 0, 1])):
        world.loop.call_later(
            rng.choice([0.0, rng.uniform(0, 1.0)]), send, world, f"{name}.{copy}", rng, contest, source, sent
        )


def send(
    world: "World",
    name: str,
    rng: Random,
    contest: str,
    source: str,
    sent: SourceReport,
    gateway: Gateway | None = None,
    tries: int = 0,
) -> "asyncio.Task[Any]":
    """Start a report; its task returns the last answer. By default gateways and tries are random."""
    client = world.loop.process(name)

    async def work(at: Gateway) -> Any:
        return await at.reporter.report(ACCOUNT, contest, source, sent)

    async def steps() -> Any:
        result: Any = None
        for _ in range(tries or rng.choice([1, 2, 4])):
            at = gateway or rng.choice(world.gateways)
            world.note(f"reports {sent.report_id} of {source} in {contest} at {at.name}: {sent.counts}")
            result = await world.ask(client, at, work)
            world.note(f"is answered {clients.described(result)}")
            world.reports.append(Reported(contest, source, sent, result))
            if result is not None and getattr(result, "code", "") not in clients.TRY_AGAIN:
                break
            await asyncio.sleep(rng.uniform(0.05, 1.0))
        return result

    return clients.run(world, client, steps())


def change(world: "World", name: str, rng: Random) -> None:
    """Map a source's ids to others, or retire it."""
    contest, source = world.some_contest(rng), rng.choice(SOURCES)
    changed: dict[str, Any] = {"retired": True}
    if rng.random() < 0.7:
        changed = {"mapping": registration(rng, contest, "delta")["mapping"]}
    key = source_key(contest, source)
    clients.operate(world, name, rng, contest, partial(_patch, key, changed))


def retire(world: "World", name: str, rng: Random, contest: str, source: str) -> "asyncio.Task[Any]":
    work = partial(_patch, source_key(contest, source), {"retired": True})
    return clients.operate(world, name, rng, contest, work, tries=20)


async def _patch(key: str, changed: dict[str, Any], at: Gateway) -> Any:
    return await at.records.patch(VOTE_SOURCES, ACCOUNT, key, changed)
