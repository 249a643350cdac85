"""Connections and options shared by the replay commands."""

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
    typer.Option("--projection", help="Projection to rebuild; repeatable. Default: all."),
]
Contest = Annotated[str | None, typer.Option("--contest", help="Only the votes of this contest.")]
Outdated = Annotated[
    bool, typer.Option("--outdated", help="Only projections whose stored layout is not this version's.")
]
Number = Annotated[int | None, typer.Option("--generation", help="Number of the generation, from `tally status`.")]
Execute = Annotated[bool, typer.Option("--execute", help="Execute it; default: only show the effect.")]

Accept = Annotated[
    bool,
    typer.Option(
        "--accept-differences",
        help="Swap even if the catalogue or purchases differ, or accepted votes might no longer count.",
    ),
]


class ReplayContext(NamedTuple):
    """Deployment and connections of the replay commands."""

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
    """Return the targets. Raises `BadParameter` for a contest with another projection than the votes."""
    if contest is None:
        return [Target(name) for name in projections or ALL]
    if projections not in (None, [], [ProjectionName.VOTES]):
        raise typer.BadParameter("Only the votes can be rebuilt for one contest.", param_hint="--contest")
    return [Target(ProjectionName.VOTES, contest)]
