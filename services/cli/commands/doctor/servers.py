"""Checks a running stack: processes, servers, topics, functions, clocks and lag."""

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import httpx

from libs.deployment.deployment import Deployment
from libs.deployment.settings import DeploymentAddresses
from libs.kafka.durability import DURABLE, read_durability
from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import out_of_sync, read_brokers
from libs.local_stack.server_interface import AwayServer
from libs.monitoring.collector import PROCESS_S, StatusCollector
from libs.monitoring.health_problems import HealthProblem, problems_of
from libs.monitoring.status import Answer, Away, ProcessStatus, Status
from libs.tally.errors import LogUnavailable, TallyError, ViewsUnavailable
from libs.telemetry.redaction import redacted
from libs.views.valkey.client import Shard, Valkey, read_info
from libs.views.valkey.connection import NotPermitted
from libs.views.valkey.failover_settings import LAG, NODE_TIMEOUT, WRITE, lag_problem, read_config
from libs.views.valkey.function_libraries import libraries, version
from libs.views.valkey.function_loading import loaded_libraries
from libs.views.valkey.hash_tags import SLOTS
from libs.views.valkey.settings import ValkeySettings
from libs.web.server.tls import public_authorities
from services.cli.commands.status import read_parts
from services.cli.output import plural
from services.cli.present_servers import PresentServers, look, open_present

MOST_SKEW_S: Final = 1.0
PING_S: Final = 1.0

SERVERS: Final = "Kafka", "Valkey"
FRONT: Final = "HTTP service"
SETTINGS = "Valkey's settings"
REPLICAS = 2
"""Replicas of a shard where writes wait for one: of one replica, a promoted one has none and refuses writes."""
WANTED = ("maxmemory-policy", "appendonly", "cluster-require-full-coverage", WRITE, LAG, NODE_TIMEOUT)
LONGEST_NODE_TIMEOUT_MS = 5_000
"""A failover begins after it, and votes of the shard wait for it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check; `away` marks a server that does not respond, `follows` what others probably explain."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    away: bool = False
    follows: bool = False


def fine(name: str, detail: str) -> Finding:
    return Finding(name, True, redacted(detail))


def problem(name: str, detail: str, remedy: str, *, away: bool = False) -> Finding:
    return Finding(name, False, redacted(detail), remedy, away)


async def check_servers(deployment: Deployment) -> AsyncIterator[Finding]:
    """Run the checks concurrently, until one deadline; those that need an absent server are skipped."""
    for finding in await look(partial(_check_once, deployment.addresses), _is_any_away):
        yield finding


def _is_any_away(findings: Sequence[Finding]) -> bool:
    return any(finding.away for finding in findings)


async def _check_once(addresses: DeploymentAddresses, patience: float) -> list[Finding]:
    parts = asyncio.ensure_future(read_parts(addresses.description, patience))
    async with open_present(addresses, patience) as present:
        findings = await _check(present, addresses.description.get("base_url"))
    silent = [Away(one.name, one.detail) for one in findings if one.away and one.name in SERVERS]
    wrong = {one.where: one for one in problems_of(Status(0, [], await parts, [], silent))}
    is_explained = bool(silent) or not all(part.alive for part in parts.result())
    return [
        *(_process(part, wrong.get(part.name)) for part in parts.result()),
        *(replace(one, follows=_follows(one, wrong.get(one.name), is_explained)) for one in findings),
    ]


def _follows(finding: Finding, wrong: HealthProblem | None, is_explained: bool) -> bool:
    if wrong is not None:
        return wrong.follows
    return is_explained and not finding.ok and (finding.away or finding.name == FRONT)


def _process(part: ProcessStatus, wrong: HealthProblem | None) -> Finding:
    if wrong is None:
        return fine(part.name, f"runs as process {part.pid}")
    found = problem(wrong.where, wrong.detail, wrong.remedy, away=part.answer is Answer.SILENT)
    return replace(found, follows=wrong.follows)


async def _check(servers: PresentServers, base_url: str | None) -> list[Finding]:
    present, log, views = servers.deployment, servers.log_answers, servers.views_answer
    addresses = present.addresses
    checks = {
        FRONT: _front(base_url) if base_url else None,
        "topics": _topics(present) if log else None,
        "replicas": check_replicas(present) if log else None,
        "recorded votes": check_durability(present) if log else None,
        "produce deadline": check_produce_deadline(present.kafka_settings) if log else None,
        "Valkey's shards": _shards(present.valkey) if views else None,
        "views": _views(servers) if log and views and servers.wrong is None else None,
    }
    within_s = servers.deadline.left_s()
    found = await asyncio.gather(
        *(_bounded(name, check, within_s) for name, check in checks.items() if check is not None)
    )
    away = await servers.away
    findings = [
        _answers("Kafka", addresses.kafka, away.brokers, log, "TALLY_KAFKA_BOOTSTRAP_SERVERS"),
        _answers("Valkey", addresses.valkey, away.valkeys, views, "TALLY_VALKEY_URL"),
        *(finding for findings in found for finding in findings),
    ]
    clocks = [finding for finding in findings if finding.name == "clock" and not finding.ok]
    return [finding for finding in findings if finding not in clocks[1:]]  # measured here, and by the views


async def _bounded(
    name: str, check: Coroutine[Any, Any, Finding | list[Finding]], within_s: float
) -> list[Finding]:
    """Return what the check finds; a server that it needs may be away, or hang."""
    task = asyncio.ensure_future(check)
    await asyncio.wait({task}, timeout=within_s)
    remedy = "see the servers above"
    if not task.done():
        task.cancel()
        return [problem(name, "away: no answer in time", remedy, away=True)]
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
    failed = next(filter(None, (each.error for each in away)), "")
    if failed:
        remedy = "see that it can write to its disk, and start it again"
        return problem(server, f"refuses every command at {places}: {failed}", remedy, away=True)
    if answers:
        return problem(server, f"does not answer at {places}; the other servers do", "start it again", away=True)
    return problem(
        server, f"does not answer at {places}", f"start it (`tally up`), or correct {setting}", away=True
    )


async def _front(base_url: str) -> Finding:
    try:
        async with httpx.AsyncClient(
            base_url=base_url, verify=public_authorities(), timeout=PROCESS_S, trust_env=False
        ) as client:
            answer = await client.get("/readyz")
    except httpx.TimeoutException:
        detail = f"{base_url}/readyz gives no answer in {PROCESS_S:g} s: the gateway hangs, or waits for a server"
        return problem(FRONT, detail, "see the processes and servers above", away=True)
    except httpx.HTTPError:
        remedy = "read the gateway's log in the data directory"
        return problem(FRONT, f"does not answer at {base_url}", remedy, away=True)
    if answer.status_code == httpx.codes.OK:
        return fine(FRONT, f"ready at {base_url}")
    return problem(FRONT, f"{base_url}/readyz returns {answer.status_code}", "see the problems named here")


async def _topics(deployment: Deployment) -> Finding:
    try:
        problems = await deployment.problems()
    except TallyError as error:
        problems = [error]
    if problems:
        remedy = "`tally topics check` prints a remedy for each"
        return problem("topics", str(problems[0]), remedy, away=problems[0].retry_after_s is not None)
    return fine("topics", f"{len(deployment.all_topics)} with the required settings, and their object store")


async def check_replicas(deployment: Deployment) -> Finding:
    """Name the brokers that lag behind or left: addresses of clients need not list all brokers."""
    lacking = await out_of_sync(deployment.kafka_settings, deployment.all_topics)
    if not lacking:
        return fine("replicas", "all are in sync")
    brokers = ", ".join(f"broker {node} in {plural(number, 'partition')}" for node, number in lacking.items())
    remedy = "start those brokers, or wait until they have caught up: until then another loss can stop votes"
    return problem("replicas", f"out of sync: {brokers}", remedy)


async def check_durability(deployment: Deployment) -> Finding:
    """Say what an acknowledged record rests on, and what would lose some of them all the same."""
    name = "recorded votes"
    text, risk = await read_durability(deployment.kafka_settings, deployment.all_topics)
    return fine(name, text) if risk is None else problem(name, risk, DURABLE)


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
    skews = await asyncio.gather(*map(_skew_s, shards))
    present = [shard for shard, skew_s in zip(shards, skews, strict=True) if skew_s is not None]
    silent = [shard for shard, skew_s in zip(shards, skews, strict=True) if skew_s is None]
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
    skew_s = max((skew_s for skew_s in skews if skew_s is not None), key=abs)
    clock = fine("clock", f"Valkey's is off by {skew_s * 1000:+.1f} ms")
    if abs(skew_s) > MOST_SKEW_S:
        clock = problem("clock", f"Valkey's is off by {skew_s:+.3f} s", "synchronise both machines' clocks by NTP")
    return [*found, await _functions(present), clock, *await check_valkey_settings(present, silent)]


async def _skew_s(shard: Shard) -> float | None:
    """Return the offset of the shard's clock, corrected by half of the round trip; None if it does not answer."""
    asked = time.time()
    try:
        reply: Any = await asyncio.wait_for(shard.valkey.call("TIME"), PING_S)
    except (ViewsUnavailable, TimeoutError):
        return None
    here = (asked + time.time()) / 2
    return float(int(reply[0]) + int(reply[1]) / 1_000_000 - here)


async def _functions(shards: Sequence[Shard]) -> Finding:
    """Check that each shard has the libraries of this version."""
    loaded = [await loaded_libraries(shard.valkey) for shard in shards]
    missing = [
        library.loaded_name
        for library in libraries()
        if not all(library.name in names.get(version(), []) for names in loaded)
    ]
    if missing:
        remedy = "start a projector of this version, or run `tally topics create` with it"
        return problem("functions", f"not loaded: {', '.join(missing)}", remedy)
    others = len({name for names in loaded for name in names} - {version()})
    text = f", and of {others} other versions; FUNCTION DELETE removes them" if others else ""
    return fine("functions", f"loaded, of this version{text}")


async def _views(servers: PresentServers) -> list[Finding]:
    """Report the problems of the views as `tally status` does; processes and servers were checked before."""
    found = await StatusCollector(servers.deployment).collect(within_s=servers.deadline.left_s(0.9))
    wrong = [
        problem("views", f"{one.where}: {one.detail}", "see the servers above", away=True)
        if one.kind == "away"
        else problem(one.kind, f"{one.where}: {one.detail}", one.remedy)
        for one in problems_of(found)
    ]
    return wrong or [fine("views", f"{len(found.rows)} partitions, {plural(found.lag, 'record')} behind")]


async def check_valkey_settings(shards: Sequence[Shard], silent: Sequence[Shard] = ()) -> list[Finding]:
    """Return each problem once, or that there is none; `silent` shards do not answer."""
    found = [finding for each in await asyncio.gather(*map(_of_shard, shards)) for finding in each]
    found += _uncovered([*shards, *silent])
    distinct = list(dict.fromkeys(found))
    return distinct or [
        fine(SETTINGS, f"as required on {len(shards)} {'shard' if len(shards) == 1 else 'shards'}")
    ]


async def _of_shard(shard: Shard) -> list[Finding]:
    try:
        settings = await read_config(shard.valkey, *WANTED)
    except NotPermitted:
        return [
            problem(SETTINGS, "cannot be read by this user", "permit `config|get` (deploy/security/valkey.acl)")
        ]
    replication = await read_info(shard.valkey, "replication")
    cluster = await read_info(shard.valkey, "cluster")
    is_clustered = cluster.get("cluster_enabled") == "1"
    return list(_problems(settings, int(replication["connected_slaves"]), is_clustered, shard.slots))


def _problems(
    settings: dict[str, str], replicas: int, is_clustered: bool, slots: Sequence[tuple[int, int]]
) -> Iterator[Finding]:
    policy = settings["maxmemory-policy"]
    if policy != "noeviction":
        detail = f"maxmemory-policy is {policy}: when memory is full, votes would be deleted from the counts"
        yield problem(SETTINGS, detail, "set maxmemory-policy noeviction")
    if settings["appendonly"] != "yes":
        detail = "appendonly is no: after a restart of Valkey, votes wait until all of the log is processed again"
        yield problem(SETTINGS, detail, "set appendonly yes")
    if replicas and (unsafe := lag_problem(settings, is_clustered, ValkeySettings().valkey_failover_ms)):
        yield problem(SETTINGS, unsafe, "see deploy/valkey-cluster.md")
    if is_clustered and replicas and int(settings[NODE_TIMEOUT]) > LONGEST_NODE_TIMEOUT_MS:
        detail = f"cluster-node-timeout is {settings[NODE_TIMEOUT]}: a lost shard's votes wait that long"
        yield problem(SETTINGS, detail, f"set cluster-node-timeout {LONGEST_NODE_TIMEOUT_MS}")
    wait_for = int(settings[WRITE])
    if wait_for and replicas < REPLICAS:
        detail = f"a primary has {replicas} replicas: after a failover, its successor could not write"
        yield problem(SETTINGS, detail, f"run {REPLICAS} replicas of each primary")
    if is_clustered and settings["cluster-require-full-coverage"] != "no":
        detail = "cluster-require-full-coverage is yes: one lost shard would stop all others"
        yield problem(SETTINGS, detail, "set cluster-require-full-coverage no")
    if is_clustered and tuple(slots) == ((0, SLOTS - 1),):
        detail = "the server belongs to a cluster, and TALLY_VALKEY_URL names one server"
        yield problem(SETTINGS, detail, "name at least two of the cluster's servers, comma-separated")


def _uncovered(shards: Sequence[Shard]) -> Iterator[Finding]:
    held = sum(last + 1 - first for shard in shards for first, last in shard.slots)
    if held < SLOTS:
        detail = f"{SLOTS - held:,} slots belong to no shard: their partitions are unavailable"
        yield problem(SETTINGS, detail, "assign them with `valkey-cli --cluster fix`", away=True)
