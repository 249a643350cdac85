"""`tally topics create|grow|check`: creates and checks the Kafka topics, and adds one for new contests."""

from typing import Annotated

from typer import Option

from libs.deployment.deployment import Deployment
from libs.deployment.identity import STORE_WAY_OUT, WrongStore, create_deployment
from libs.deployment.votes_topics import create_next_topic
from libs.kafka.durability import DURABLE, read_durability
from libs.kafka.errors import LogChanged, ReplicasAway, WrongTopic
from libs.kafka.topics import REPLICATION_FACTOR
from libs.tally.errors import TallyError
from libs.views.valkey.function_loading import load_functions
from services.cli.command_decorator import Execute, command, command_group
from services.cli.operator_actions import record_action
from services.cli.output import ExitCode, Result, plural

app = command_group("Kafka topics of the log.")


@command(app)
async def create(deployment: Deployment) -> Result:
    """Create missing topics at once, write their first records, and load the Valkey functions; idempotent."""
    try:
        await create_deployment(deployment.kafka_settings, deployment.votes, deployment.store)
    except (WrongTopic, WrongStore, LogChanged) as error:
        error.message = f"{error.message}. `tally topics check` prints the remedy."
        raise
    await load_functions(deployment.valkey)
    return await _check(deployment)


@command(app)
async def grow(
    deployment: Deployment,
    partitions: Annotated[int, Option(min=1, help="Partitions of the new topic.")],
    execute: Execute = False,
) -> Result:
    """Create another topic of the votes, for the contests created from now on.

    Existing contests keep their topic for life, so no vote changes its partition. All services notice the new
    topic while they run, which takes some seconds. After an interruption the same command completes it.
    """
    await deployment.check()
    before, topic = deployment.votes.topics, deployment.votes.next_topic(partitions)
    if execute:
        await record_action(deployment, "votes topic created", topic=topic.name, partitions=partitions)
        await create_next_topic(deployment.kafka_settings, deployment.votes, partitions)
    present = [other.name for other in before]
    text = [f"Topic {topic.name} with {plural(partitions, 'partition')}, for the contests created from now on."]
    text.append(f"Existing contests stay in {', '.join(present)}.")
    members = {"before": present, "topic": topic.name, "partitions": partitions}
    return Result.change(members, text, execute, "Created. No restart is needed.", "create it")


@command(app)
async def check(deployment: Deployment) -> Result:
    """Compare the topics with the required settings, and print each problem with its remedy."""
    return await _check(deployment)


async def _check(deployment: Deployment) -> Result:
    found = await deployment.problems()
    topics, text = [], list[str]()
    for topic in deployment.all_topics:
        problems = [
            {"problem": error.message, "remedy": _remedy(error, deployment)}
            for error in found
            if error.data["topic"] == topic.name
        ]
        topics.append({"topic": topic.name, "partitions": topic.partitions, "problems": problems})
        for one in problems:
            text += [one["problem"], f"  remedy: {one['remedy']}"]
        if not problems:
            text.append(f"{topic.name}: {topic.partitions} partitions, correct")
    recorded_on, risk = await read_durability(deployment.kafka_settings, deployment.all_topics)
    text.append(f"recorded votes: {recorded_on}")
    if risk is not None:
        text += [risk, f"  remedy: {DURABLE}"]
    is_fine = risk is None and not any(topic["problems"] for topic in topics)
    return Result({"topics": topics, "recorded_on": recorded_on, "risk": risk}, text, ExitCode.fine_if(is_fine))


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
