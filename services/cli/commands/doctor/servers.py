"""Checks a running stack: processes, servers, topics, functions, clocks and lag."""

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

import httpx

from libs.contracts.topics import topics_of
from libs.deployment.deployment import Deployment
from libs.kafka.brokers import read_brokers
from libs.kafka.settings import KafkaSettings
from libs.local_stack.server_interface import AwayServer
from libs.monitoring.collector import StatusCollector
from libs.monitoring.health_problems import problems_of
from libs.tally.errors import LogUnavailable, TallyError, ViewsUnavailable
from libs.telemetry.redaction import redacted
from libs.views.valkey.client import Shard, Valkey
from libs.web.server.tls import public_authorities
from services.cli.commands.doctor.finding import Finding, fine, problem
from services.cli.commands.doctor.functions import missing_libraries, other_versions
from services.cli.commands.doctor.valkey_settings import check_valkey_settings
from services.cli.commands.status import parts_of
from services.cli.present_servers import PresentServers, open_present

MOST_SKEW_S: Final = 1.0
PING_S: Final = 1.0
CHECK_S: Final = 3.0


async def check_servers(deployment: Deployment) -> AsyncIterator[Finding]:
    """Run the checks concurrently, each for at most `CHECK_S`; those that need an absent server are skipped."""
    description = deployment.description
    for part in parts_of(description):
        restart = "`tally up` restarts it automatically; otherwise read its log and start the stack again"
        yield (
            fine(part.name, f"runs as process {part.pid}")
            if part.alive
            else problem(part.name, f"process {part.pid} is gone", restart)
        )
    async with open_present(deployment.addresses) as present:
        for finding in await _check(present, description.get("base_url")):
            yield finding


async def _check(servers: PresentServers, base_url: str | None) -> list[Finding]:
    present, log, views = servers.deployment, servers.log_answers, servers.views_answer
    addresses = present.addresses
    checks = {
        "HTTP service": _front(base_url) if base_url else None,
        "topics": _topics(present) if log else None,
        "produce deadline": check_produce_deadline(present.kafka_settings) if log else None,
        "Valkey's shards": _shards(present.valkey) if views else None,
        "views": _views(servers) if log and views else None,
    }
    found = await asyncio.gather(*(_bounded(name, check) for name, check in checks.items() if check is not None))
    return [
        _answers("Kafka", addresses.kafka, servers.away_brokers, log, "TALLY_KAFKA_BOOTSTRAP_SERVERS"),
        _answers("Valkey", addresses.valkey, servers.away_valkeys, views, "TALLY_VALKEY_URL"),
        *(finding for findings in found for finding in findings),
    ]


async def _bounded(name: str, check: Coroutine[Any, Any, Finding | list[Finding]]) -> list[Finding]:
    """Return what the check finds; a server that it needs may be away, or hang."""
    task = asyncio.ensure_future(check)
    await asyncio.wait({task}, timeout=CHECK_S)
    remedy = "see the servers above"
    if not task.done():
        task.cancel()
        return [problem(name, f"away: no answer within {CHECK_S:g} s", remedy, away=True)]
    try:
        found = task.result()
    except TallyError as error:
        return [problem(name, f"away: {error}", remedy, away=error.retry_after_s is not None)]
    return found if isinstance(found, list) else [found]


def _answers(server: str, address: str, away: Sequence[AwayServer], answers: bool, setting: str) -> Finding:
    if not away:
        return fine(server, f"answers at {redacted(address)}")
    places = ", ".join(each.address for each in away)
    refused = next(filter(None, (each.refusal for each in away)), "")
    if refused:
        names = f"TALLY_{server.upper()}_USERNAME and TALLY_{server.upper()}_PASSWORD"
        remedy = f"correct the user and password in {setting if '@' in address else names}"
        return problem(server, f"refuses the user or password at {places}: {refused}", remedy)
    if answers:
        return problem(server, f"does not answer at {places}; the other servers do", "start it again", away=True)
    return problem(
        server, f"does not answer at {places}", f"start it (`tally up`), or correct {setting}", away=True
    )


async def _front(base_url: str) -> Finding:
    try:
        async with httpx.AsyncClient(
            base_url=base_url, verify=public_authorities(), timeout=5.0, trust_env=False
        ) as client:
            answer = await client.get("/readyz")
    except httpx.HTTPError:
        remedy = "read the gateway's log in the data directory"
        return problem("HTTP service", f"does not answer at {base_url}", remedy, away=True)
    if answer.status_code == httpx.codes.OK:
        return fine("HTTP service", f"ready at {base_url}")
    return problem(
        "HTTP service", f"{base_url}/readyz returns {answer.status_code}", "see the problems named here"
    )


async def _topics(deployment: Deployment) -> Finding:
    try:
        problems = await deployment.problems()
    except TallyError as error:
        problems = [error]
    if problems:
        remedy = "`tally topics check` prints a remedy for each"
        return problem("topics", str(problems[0]), remedy, away=problems[0].retry_after_s is not None)
    others = topics_of(deployment.namespace, deployment.partitions)[1:]
    return fine(
        "topics",
        f"{len(others) + len(deployment.votes.topics)} with the required settings, and their object store",
    )


async def check_produce_deadline(settings: KafkaSettings) -> Finding:
    """Compare the deadline of an append with the time that the brokers take to replace a lost one."""
    name = "produce deadline"
    try:
        needed_ms = (await read_brokers(settings)).shortest_deadline_ms
    except LogUnavailable as error:
        return problem(name, str(error), "see the problems above", away=True)
    if needed_ms is None:
        return problem(name, "the brokers' settings may not be read", "permit DescribeConfigs on the cluster")
    if settings.produce_deadline_ms < needed_ms:
        detail = f"{settings.produce_deadline_ms:,} ms: votes become unknown while a lost broker is replaced"
        remedy = f"set TALLY_PRODUCE_DEADLINE_MS={needed_ms}, or lower broker.session.timeout.ms"
        return problem(name, detail, remedy)
    return fine(name, f"{settings.produce_deadline_ms:,} ms, at least {needed_ms:,} ms are needed")


async def _shards(connection: Valkey) -> list[Finding]:
    """Check the shards that answer, and name the slots of the others."""
    shards = await connection.shards()
    answers = await asyncio.gather(*map(_pings, shards))
    present = [shard for shard, answered in zip(shards, answers, strict=True) if answered]
    silent = [shard for shard, answered in zip(shards, answers, strict=True) if not answered]
    found = [
        problem(
            "Valkey's shards",
            f"away: the one of the slots {', '.join(f'{first}-{last}' for first, last in shard.slots)}",
            "votes and counts of its partitions wait for it; the others' do not",
            away=True,
        )
        for shard in silent
    ]
    if not present:
        return found
    return [
        *found,
        await _functions(present),
        await _clock(present),
        *await check_valkey_settings(present, silent),
    ]


async def _pings(shard: Shard) -> bool:
    with suppress(ViewsUnavailable, TimeoutError):
        await asyncio.wait_for(shard.valkey.call("PING"), PING_S)
        return True
    return False


async def _functions(shards: Sequence[Shard]) -> Finding:
    missing = await missing_libraries(shards)
    if missing:
        remedy = "start a projector of this version, or run `tally topics create` with it"
        return problem("functions", f"not loaded: {', '.join(missing)}", remedy)
    others = len(await other_versions(shards))
    text = f", and of {others} other versions; FUNCTION DELETE removes them" if others else ""
    return fine("functions", f"loaded, of this version{text}")


async def _clock(shards: Sequence[Shard]) -> Finding:
    """Measure the largest offset of the shards' clocks, corrected by half of the round trip."""
    skew_s = max([await _skew_s(shard.valkey) for shard in shards], key=abs)
    if abs(skew_s) > MOST_SKEW_S:
        return problem("clock", f"Valkey's is off by {skew_s:+.3f} s", "synchronise both machines' clocks by NTP")
    return fine("clock", f"Valkey's is off by {skew_s * 1000:+.1f} ms")


async def _skew_s(server: Valkey) -> float:
    asked: float = time.time()
    reply: Any = await server.call("TIME")
    here = (asked + time.time()) / 2
    return int(reply[0]) + int(reply[1]) / 1_000_000 - here


async def _views(servers: PresentServers) -> list[Finding]:
    """Report the problems of the views as `tally status` does; processes and servers were checked before."""
    found = await StatusCollector(servers.deployment).collect()
    wrong = [
        problem("views", f"{one.where}: {one.detail}", "see the servers above", away=True)
        if one.kind == "away"
        else problem(one.kind, f"{one.where}: {one.detail}", one.remedy)
        for one in problems_of(found)
    ]
    return wrong or [fine("views", f"{len(found.rows)} partitions, {found.lag:,} records behind")]
