"""What the commands about replays work with, and the options that they share."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, NamedTuple

import typer

from libs.deployment.deployment import Deployment
from libs.kafka.reader import LogReader
from libs.views.client import Valkey
from libs.views.functions import load_functions, open_valkey
from services.cli.commands.replay.projections import ALL, ProjectionName
from services.cli.commands.replay.targets import Target

Projections = Annotated[
    list[ProjectionName] | None,
    typer.Option("--projection", help="What to rebuild; may be repeated. Absent: all views."),
]
Contest = Annotated[str | None, typer.Option("--contest", help="Only this contest of the votes.")]
Outdated = Annotated[
    bool, typer.Option("--outdated", help="Only projections whose stored layout is another than the code's.")
]
Number = Annotated[int | None, typer.Option("--generation", help="Its number, as `tally status` shows it.")]
Execute = Annotated[bool, typer.Option("--execute", help="Do it; else it is only shown.")]

Accept = Annotated[
    bool,
    typer.Option(
        "--accept-differences",
        help="Swap although the catalogue or purchases read otherwise, or accepted votes may count no more.",
    ),
]


class ReplayContext(NamedTuple):
    """What the commands work with."""

    stack: Deployment
    valkey: Valkey
    reader: LogReader


@asynccontextmanager
async def open_replay_context(stack: Deployment) -> AsyncIterator[ReplayContext]:
    valkey = open_valkey(stack.valkey)
    try:
        await load_functions(valkey)
        async with LogReader(stack.kafka_settings) as reader:
            yield ReplayContext(stack, valkey, reader)
    finally:
        await valkey.close()


def targets_of(projections: Sequence[ProjectionName] | None, contest: str | None) -> list[Target]:
    """Raises `BadParameter` where a contest is named with another projection than the votes."""
    if contest is None:
        return [Target(name) for name in projections or ALL]
    if projections not in (None, [], [ProjectionName.VOTES]):
        raise typer.BadParameter("Only the votes can be rebuilt for one contest.", param_hint="--contest")
    return [Target(ProjectionName.VOTES, contest)]
