"""`tally topics`: the log's topics, made and checked."""

from typing import Any

import typer

from libs.contracts.topics import topics_of
from libs.kafka.topics import check_topics, create_topics
from libs.views.functions import load_functions, open_valkey
from services.operations.connect import DATA_DIR, Stack, find_stack
from services.operations.running import AsJson, DataDir, Ending, print_json, run

app = typer.Typer(no_args_is_help=True, help="The log's topics.")


@app.command()
def create(data_dir: DataDir = DATA_DIR, as_json: AsJson = False) -> None:
    """Make the topics that are missing, begin their logs, and load the Valkey functions; safe to repeat."""

    async def work() -> Ending:
        stack = find_stack(data_dir)
        await create_topics(stack.kafka_settings, topics_of(stack.namespace, stack.partitions))
        valkey = open_valkey(stack.valkey)
        try:
            await load_functions(valkey)
        finally:
            await valkey.close()
        return _report(stack, as_json)

    run(work())


@app.command()
def check(data_dir: DataDir = DATA_DIR, as_json: AsJson = False) -> None:
    """Compare the topics' settings with those that keep the truth."""

    async def work() -> Ending:
        stack = find_stack(data_dir)
        await check_topics(stack.kafka_settings, topics_of(stack.namespace, stack.partitions))
        return _report(stack, as_json)

    run(work())


def _report(stack: Stack, as_json: bool) -> Ending:
    topics: list[dict[str, Any]] = [
        {"topic": topic.name, "partitions": topic.partitions}
        for topic in topics_of(stack.namespace, stack.partitions)
    ]
    if as_json:
        print_json({"topics": topics})
    for row in topics if not as_json else ():
        typer.echo(f"{row['topic']}: {row['partitions']} partitions, as they must be")
    return Ending.FINE
