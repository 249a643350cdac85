"""Options shared by the replay commands."""

from collections.abc import Sequence
from typing import Annotated

import typer

from libs.deployment.deployment import Deployment
from services.cli.commands.replay.projections import ALL, Rebuildable
from services.cli.commands.replay.targets import Target
from services.cli.contest_lookup import read_titles

Projections = Annotated[
    list[Rebuildable] | None,
    typer.Option("--projection", help="Projection to rebuild; repeatable. Default: all."),
]
Outdated = Annotated[
    bool, typer.Option("--outdated", help="Only projections whose stored layout is not this version's.")
]
Number = Annotated[int | None, typer.Option("--generation", help="Number of the generation, from `tally status`.")]
Accept = Annotated[
    bool,
    typer.Option(
        "--accept-differences",
        help="Swap even if the catalogue or purchases differ, or accepted votes might no longer count.",
    ),
]


async def find_targets(
    deployment: Deployment, projections: Sequence[Rebuildable] | None, contest: str | None
) -> list[Target]:
    """Return the targets. Raises `BadParameter` for a contest with another projection than the votes."""
    if contest is None:
        return [Target(name) for name in projections or ALL]
    if projections not in (None, [], [Rebuildable.VOTES]):
        raise typer.BadParameter("Only the votes can be rebuilt for one contest.", param_hint="CONTEST")
    return [Target(Rebuildable.VOTES, contest, (await read_titles(deployment, contest)).title)]
