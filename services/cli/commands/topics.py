"""`tally topics`: creates and checks the Kafka topics."""

from typing import Any

import typer

from libs.contracts.topics import topics_of
from libs.deployment.deployment import Deployment, find_problems
from libs.deployment.identity import STORE_WAY_OUT, WrongStore, create_deployment
from libs.kafka.errors import LogChanged, ReplicasAway, WrongTopic
from libs.kafka.topics import REPLICATION_FACTOR
from libs.storage.store import open_store
from libs.tally.errors import TallyError
from libs.views.functions import load_functions, open_valkey
from services.cli.discovery import DATA_DIR, find_deployment
from services.cli.runner import AsJson, DataDir, ExitCode, print_json, run

app = typer.Typer(no_args_is_help=True, help="Kafka topics of the log.")


@app.command()
def create(data_dir: DataDir = DATA_DIR, as_json: AsJson = False) -> None:
    """Create missing topics, write their first records, and load the Valkey functions; idempotent."""

    async def work() -> ExitCode:
        stack = find_deployment(data_dir)
        try:
            await create_deployment(
                stack.kafka_settings, stack.namespace, stack.partitions, open_store(stack.storage_url)
            )
        except (WrongTopic, WrongStore, LogChanged) as error:
            typer.echo(f"Error: {error.message}. `tally topics check` prints the remedy.", err=True)
            return ExitCode.PROBLEM
        valkey = open_valkey(stack.valkey)
        try:
            await load_functions(valkey)
        finally:
            await valkey.close()
        return await _report(stack, as_json)

    run(work())


@app.command()
def check(data_dir: DataDir = DATA_DIR, as_json: AsJson = False) -> None:
    """Compare the topics with the required settings, and print each problem with its remedy."""

    async def work() -> ExitCode:
        return await _report(find_deployment(data_dir), as_json)

    run(work())


async def _report(stack: Deployment, as_json: bool) -> ExitCode:
    wanted = topics_of(stack.namespace, stack.partitions)
    problems = await find_problems(stack)
    rows: list[dict[str, Any]] = [
        {
            "topic": topic.name,
            "partitions": topic.partitions,
            "problems": [
                {"problem": error.message, "mend": _remedy(error, stack)}
                for error in problems
                if error.data["topic"] == topic.name
            ],
        }
        for topic in wanted
    ]
    if as_json:
        print_json({"topics": rows})
    else:
        _print(rows)
    return ExitCode.PROBLEM if problems else ExitCode.FINE


def _print(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        if not row["problems"]:
            typer.echo(f"{row['topic']}: {row['partitions']} partitions, correct")
        for one in row["problems"]:
            typer.echo(f"{one['problem']}\n  remedy: {one['mend']}")


def _remedy(error: TallyError, stack: Deployment) -> str:
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
        if error.data["wanted"] != str(stack.partitions):
            return f"set TALLY_PARTITIONS={error.data['wanted']}, and {elsewhere}: votes keep their partition"
        given = "" if topic.endswith(".catalogue") else f"set TALLY_PARTITIONS={error.data['found']}, or else "
        return f"a topic keeps its partitions for life: {given}{elsewhere}"
    if setting == REPLICATION_FACTOR:
        fewer = f"set TALLY_KAFKA_REPLICATION_FACTOR={error.data['found']}"
        return f"add replicas with kafka-reassign-partitions.sh, or {fewer}"
    addresses = stack.kafka_settings.kafka_bootstrap_servers
    where = f"--bootstrap-server {addresses} --entity-type topics --entity-name {topic}"
    return f"kafka-configs.sh --alter {where} --add-config {setting}={error.data['wanted']}"
