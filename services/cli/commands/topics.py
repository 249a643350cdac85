"""`tally topics create|grow|check`: creates and checks the Kafka topics, and adds one for new contests."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import typer

from libs.contracts.topics import topics_of
from libs.deployment.deployment import Deployment
from libs.deployment.identity import STORE_WAY_OUT, WrongStore, create_deployment
from libs.deployment.votes_topics import create_next_topic
from libs.kafka.errors import LogChanged, ReplicasAway, WrongTopic
from libs.kafka.topics import REPLICATION_FACTOR
from libs.tally.errors import TallyError
from libs.views.valkey.function_loading import load_functions
from services.cli.command_decorator import Execute, command, command_group
from services.cli.operator_actions import record_action
from services.cli.render import Block, plural

app = command_group("Kafka topics of the log.")


@dataclass(frozen=True, slots=True)
class TopicProblem:
    problem: str
    remedy: str


@dataclass(frozen=True, slots=True)
class CheckedTopic:
    topic: str
    partitions: int
    problems: list[TopicProblem]


@dataclass(frozen=True, slots=True)
class Topics:
    topics: list[CheckedTopic]


def _text(result: Topics) -> Iterator[Block]:
    for row in result.topics:
        if not row.problems:
            yield f"{row.topic}: {row.partitions} partitions, correct"
        for one in row.problems:
            yield f"{one.problem}\n  remedy: {one.remedy}"


def _is_fine(result: Topics) -> bool:
    return not any(row.problems for row in result.topics)


@app.command()
@command(text=_text, is_fine=_is_fine)
async def create(deployment: Deployment) -> Topics:
    """Create missing topics at once, write their first records, and load the Valkey functions; idempotent."""
    try:
        await create_deployment(
            deployment.kafka_settings, deployment.namespace, deployment.partitions, deployment.store
        )
    except (WrongTopic, WrongStore, LogChanged) as error:
        error.message = f"{error.message}. `tally topics check` prints the remedy."
        raise
    await load_functions(deployment.valkey)
    return await _check(deployment)


@dataclass(frozen=True, slots=True)
class Growth:
    """The topic that new contests get, after those in `before`; `executed`: it exists."""

    before: list[str]
    topic: str
    partitions: int
    executed: bool


def _growth(result: Growth) -> Iterator[Block]:
    if not result.executed:
        yield f"New contests would get topic {result.topic} with {plural(result.partitions, 'partition')}."
        yield f"Existing contests would stay in {', '.join(result.before)}. Run again with --execute to create it."
        return
    yield f"Created topic {result.topic} with {plural(result.partitions, 'partition')}."
    yield "Contests created from now on get it. No restart is needed."


@app.command()
@command(text=_growth)
async def grow(
    deployment: Deployment,
    partitions: Annotated[int, typer.Option("--partitions", min=1, help="Partitions of the new topic.")],
    execute: Execute = False,
) -> Growth:
    """Create another topic of the votes, for the contests created from now on.

    Existing contests keep their topic for life, so no vote changes its partition. All services notice the new
    topic while they run, which takes some seconds. After an interruption the same command completes it.
    """
    await deployment.check()
    before, topic = deployment.votes.topics, deployment.votes.next_topic(partitions)
    if execute:
        await record_action(deployment, "votes topic created", topic=topic.name, partitions=partitions)
        await create_next_topic(deployment.kafka_settings, deployment.votes, partitions)
    return Growth([each.name for each in before], topic.name, partitions, execute)


@app.command()
@command(text=_text, is_fine=_is_fine)
async def check(deployment: Deployment) -> Topics:
    """Compare the topics with the required settings, and print each problem with its remedy."""
    return await _check(deployment)


async def _check(deployment: Deployment) -> Topics:
    problems, log = await deployment.problems(), deployment.votes
    present = [*log.topics, *topics_of(deployment.namespace, deployment.partitions)[1:]]
    return Topics(
        [
            CheckedTopic(
                topic.name,
                topic.partitions,
                [
                    TopicProblem(error.message, _remedy(error, deployment))
                    for error in problems
                    if error.data["topic"] == topic.name
                ],
            )
            for topic in present
        ]
    )


def _remedy(error: TallyError, deployment: Deployment) -> str:
    topic, setting = error.data["topic"], error.data.get("setting")
    elsewhere = "set TALLY_NAMESPACE to another name and `tally import` an export there"
    if isinstance(error, WrongStore):
        return STORE_WAY_OUT
    if isinstance(error, ReplicasAway):
        return "start the brokers that hold its other replicas"
    if isinstance(error, LogChanged):
        return f"something else has written to it, or its first records were deleted: {elsewhere}"
    if setting is None:
        return "tally topics create"
    if setting == "partitions":
        if error.data["wanted"] != str(deployment.partitions):
            return f"set TALLY_PARTITIONS={error.data['wanted']}, and {elsewhere}: votes keep their partition"
        given = "" if topic.endswith(".catalogue") else f"set TALLY_PARTITIONS={error.data['found']}, or else "
        return f"a topic keeps its partitions for life: {given}{elsewhere}"
    if setting == REPLICATION_FACTOR:
        fewer = f"set TALLY_KAFKA_REPLICATION_FACTOR={error.data['found']}"
        return f"add replicas with kafka-reassign-partitions.sh, or {fewer}"
    addresses = deployment.kafka_settings.kafka_bootstrap_servers
    where = f"--bootstrap-server {addresses} --entity-type topics --entity-name {topic}"
    return f"kafka-configs.sh --alter {where} --add-config {setting}={error.data['wanted']}"
