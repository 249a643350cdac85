"""External sources: registered with their contests, changed and retired, and their reports."""

from random import Random
from typing import Any, Final

from libs.catalogue.contests.vote_sources import source_key
from libs.catalogue.resource_table import VOTE_SOURCES
from libs.voting.source_reports import SourceReport
from tests.simulation.answers import Reported, is_undecided
from tests.simulation.clients import Client, Task, operate
from tests.simulation.contests import participant_key
from tests.simulation.deployment import ACCOUNT, Gateway

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


def report(client: Client) -> None:
    """Report, sometimes twice at once, and sometimes something else under the same id."""
    rng = client.rng
    contest, source = client.world.some_contest(rng), rng.choice(SOURCES)
    sent = some_report(rng, f"report{rng.randrange(6)}")
    send(client, contest, source, sent)
    for copy in range(rng.choice([0, 0, 1])):
        again = client.other(f".{copy}")
        client.later(rng.choice([0.0, rng.uniform(0, 1.0)]), send, again, contest, source, sent)


def send(
    client: Client, contest: str, source: str, sent: SourceReport, gateway: Gateway | None = None, tries: int = 0
) -> Task:
    """Start a report; its task returns the last answer. By default gateways and tries are random."""

    async def steps() -> Any:
        result: Any = None
        for _ in range(tries or client.rng.choice([1, 2, 4])):
            result = await client.ask(
                lambda at: at.reporter.report(ACCOUNT, contest, source, sent),
                f"reports {sent.report_id} of {source} in {contest}, {sent.counts},",
                gateway,
            )
            client.world.reports.append(Reported(contest, source, sent, result))
            if not is_undecided(result):
                break
            await client.pause(0.05, 1.0)
        return result

    return client.run(steps())


def change(client: Client) -> None:
    """Map a source's ids to others, or retire it."""
    rng = client.rng
    contest, source = client.world.some_contest(rng), rng.choice(SOURCES)
    changed: dict[str, Any] = {"retired": True}
    if rng.random() < 0.7:
        changed = {"mapping": registration(rng, contest, "delta")["mapping"]}
    patch(client, contest, source, changed)


def patch(client: Client, contest: str, source: str, changed: dict[str, Any], tries: int = 1) -> Task:
    key = source_key(contest, source)
    return operate(client, contest, lambda at: at.records.patch(VOTE_SOURCES, ACCOUNT, key, changed), None, tries)
