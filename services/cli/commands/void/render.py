"""Renders the effect of an operation as text and JSON."""

import json
from typing import Any, Final

import typer
from rich.console import Console
from rich.table import Table

from libs.audit.ballots import Ballots
from libs.audit.void_effects import Effect, Row
from libs.tally.time import timestamp

FIGURES: Final = "votes", "rank", "voters"
OVER: Final = "The contest is over and its result stays. The operation takes effect if the contest is reopened."


def as_json(void: str, ballots: Ballots, effect: Effect, *, executed: bool) -> dict[str, Any]:
    return {
        "void": void,
        "contest_key": ballots.contest.key,
        "executed": executed,
        "waits_for_reopening": ballots.is_over,
        "votes": effect.votes,
        "voters": effect.voters,
        "contest": effect.total.as_json(),
        "participants": [row.as_json() for row in effect.rows],
        "at": timestamp(ballots.at),
        "position": ballots.positions,
    }


def show(void: str, verb: str, ballots: Ballots, effect: Effect, *, executed: bool) -> None:
    """Print a table on a terminal, otherwise one line per participant; the most affected first."""
    console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
    if console.is_terminal and effect.rows:
        table = Table("participant", "title", *FIGURES, box=None)
        for row in effect.rows:
            table.add_row(row.participant, row.title, *map(_arrow, _figures(row)))
        console.print(table, soft_wrap=False)
    else:
        for row in effect.rows:
            figures = zip(FIGURES, map(_arrow, _figures(row)), strict=True)
            pairs = " ".join(f"{name}={figure.replace(' ', '')}" for name, figure in figures)
            console.out(f"participant={row.participant} title={json.dumps(row.title, ensure_ascii=False)} {pairs}")
    console.out(f"Contest: {_arrow(effect.total.count)} votes, {_arrow(effect.total.voters)} voters.")
    if ballots.is_over:
        console.out(OVER)
    about = f"{effect.votes:,} votes of {effect.voters:,} voters"
    if not effect.votes:
        typer.echo(f"Nothing is to be {verb}.")
    elif executed:
        typer.echo(f"{verb.capitalize()}: {about}, as {void}.")
    else:
        typer.echo(f"{about} are to be {verb}: run again with --execute.")
    console.out(
        f"By the log as of {timestamp(ballots.at)}; later votes are not affected. Position: {ballots.positions}"
    )


def _figures(row: Row) -> tuple[tuple[int, int], ...]:
    assert row.rank is not None
    return row.count, row.rank, row.voters


def _arrow(pair: tuple[int, int]) -> str:
    before, after = pair
    return f"{before:,}" if before == after else f"{before:,} -> {after:,}"
