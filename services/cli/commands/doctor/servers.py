"""Checks a running stack: processes, servers, topics, functions, clocks and lag."""

import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx

from libs.contracts.topics import topics_of
from libs.deployment.deployment import Deployment
from libs.kafka.brokers import read_brokers
from libs.kafka.settings import KafkaSettings
from libs.local_stack import kafka, valkey
from libs.monitoring.health_problems import problems_of
from libs.monitoring.status import Status
from libs.tally.errors import LogUnavailable, TallyError
from libs.telemetry.redaction import redacted
from libs.views.valkey.client import Valkey
from libs.web.server.tls import public_authorities
from services.cli.commands.doctor.finding import Finding, fine, problem
from services.cli.commands.doctor.functions import missing_libraries, other_versions
from services.cli.commands.doctor.valkey_settings import check_valkey_settings
from services.cli.commands.status import parts_of, read_status

MOST_SKEW_S = 1.0


async def check_servers(deployment: Deployment) -> AsyncIterator[Finding]:
    """Run the checks; those that need an unresponsive server are skipped."""
    addresses = deployment.addresses
    for part in parts_of(addresses.description):
        restart = "`tally up` restarts it automatically; otherwise read its log and start the stack again"
        yield (
            fine(part.name, f"runs as process {part.pid}")
            if part.alive
            else problem(part.name, f"process {part.pid} is gone", restart)
        )
    log_answers = await kafka.answers(addresses.kafka)
    view_answers = await valkey.answers(addresses.valkey)
    log_refuses = "" if log_answers else await kafka.refused_login(addresses.kafka)
    view_refuses = "" if view_answers else await valkey.refused_login(addresses.valkey)
    yield _answers("Kafka", addresses.kafka, log_answers, log_refuses, "TALLY_KAFKA_BOOTSTRAP_SERVERS")
    yield _answers("Valkey", addresses.valkey, view_answers, view_refuses, "TALLY_VALKEY_URL")
    if base_url := addresses.description.get("base_url"):
        yield await _front(base_url)
    if log_answers:
        yield await _topics(deployment)
        yield await check_produce_deadline(deployment.kafka_settings)
    if view_answers:
        yield await _functions(deployment.valkey)
        yield await _clock(deployment.valkey)
        for finding in await check_valkey_settings(deployment.valkey):
            yield finding
    if log_answers and view_answers:
        try:
            found = await read_status(deployment)
        except TallyError as error:
            yield problem("views", str(error), "see the problems above", away=error.retry_after_s is not None)
        else:
            for finding in _folds(found):
                yield finding


def _answers(server: str, address: str, answers: bool, refuses: str, setting: str) -> Finding:
    place = redacted(address)
    if answers:
        return fine(server, f"answers at {place}")
    if refuses:
        names = f"TALLY_{server.upper()}_USERNAME and TALLY_{server.upper()}_PASSWORD"
        remedy = f"correct the user and password in {setting if '@' in address else names}"
        return problem(server, f"refuses the user or password at {place}: {refuses}", remedy)
    remedy = f"start it (`tally up`), or correct {setting}"
    return problem(server, f"does not answer at {place}", remedy, away=True)


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


async def _functions(connection: Valkey) -> Finding:
    missing = await missing_libraries(connection)
    if missing:
        remedy = "start a projector of this version, or run `tally topics create` with it"
        return problem("functions", f"not loaded: {', '.join(missing)}", remedy)
    others = len(await other_versions(connection))
    text = f", and of {others} other versions; FUNCTION DELETE removes them" if others else ""
    return fine("functions", f"loaded, of this version{text}")


async def _clock(connection: Valkey) -> Finding:
    """Measure the largest offset of the shards' clocks, corrected by half of the round trip."""
    skews = [await _skew_s(shard.valkey) for shard in await connection.shards()]
    skew_s = max(skews, key=abs)
    if abs(skew_s) > MOST_SKEW_S:
        return problem("clock", f"Valkey's is off by {skew_s:+.3f} s", "synchronise both machines' clocks by NTP")
    return fine("clock", f"Valkey's is off by {skew_s * 1000:+.1f} ms")


async def _skew_s(server: Valkey) -> float:
    asked: float = time.time()
    reply: Any = await server.call("TIME")
    here = (asked + time.time()) / 2
    return int(reply[0]) + int(reply[1]) / 1_000_000 - here


def _folds(found: Status) -> Iterator[Finding]:
    """Report the problems of the views as `tally status` does; processes were checked before."""
    wrong = [one for one in problems_of(found) if one.kind != "part"]
    yield from (problem(one.kind, f"{one.where}: {one.detail}", one.remedy) for one in wrong)
    if not wrong:
        yield fine("views", f"{len(found.rows)} partitions, {found.lag:,} records behind")
