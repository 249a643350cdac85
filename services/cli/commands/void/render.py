"""The effect of an operation that voids or restores votes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from libs.audit.void_effects import Pair, ParticipantEffect, Totals
from libs.contracts.json_form import HIDDEN
from services.cli.render import Block, Rows

OVER: Final = "The contest is over and its result stays. The operation takes effect if the contest is reopened."


@dataclass(frozen=True, slots=True)
class VoidResult:
    """Operation `void`: the number of its votes and their voters, and the counts before and after it.

    They are those of the log at `position`, read at `at`.
    """

    void: str
    verb: str = field(metadata=HIDDEN)
    contest_key: str
    executed: bool
    waits_for_reopening: bool
    votes: int
    voters: int
    contest: Totals
    participants: Sequence[ParticipantEffect]
    at: str | None
    position: str


def void_text(result: VoidResult) -> Iterator[Block]:
    """Yield the participants, the most affected first, and the contest."""
    yield Rows(
        [
            {
                "participant": row.participant_key,
                "title": row.title,
                "votes": _arrow(row.count),
                "rank": _arrow(row.rank),
                "voters": _arrow(row.unique_voter_count),
            }
            for row in result.participants
        ]
    )
    total = result.contest
    yield f"Contest: {_arrow(total.count)} votes, {_arrow(total.unique_voter_count)} voters."
    if result.waits_for_reopening:
        yield OVER
    about = f"{result.votes:,} votes of {result.voters:,} voters"
    if not result.votes:
        yield f"Nothing is to be {result.verb}."
    elif result.executed:
        yield f"{result.verb.capitalize()}: {about}, as {result.void}."
    else:
        yield f"{about} are to be {result.verb}: run again with --execute."
    yield f"By the log as of {result.at}; later votes are not affected. Position: {result.position}"


def _arrow(pair: Pair) -> str:
    return f"{pair.before:,}" if pair.before == pair.after else f"{pair.before:,} -> {pair.after:,}"
