"""The effect of an operation that voids or restores votes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from libs.audit.void_effects import Pair, ParticipantEffect, Totals
from libs.contracts.dataclass_json import HIDDEN
from services.cli.contest_lookup import named
from services.cli.render import Block, Rows, plural

AGAIN: Final = "Run again with --execute to record it."


@dataclass(frozen=True, slots=True)
class VoidResult:
    """Operation `void`: the number of its votes and their voters, and the counts before and after it.

    They are those of the log at `position`, read at `at`.
    """

    void: str
    verb: str = field(metadata=HIDDEN)
    contest_key: str
    title: str
    executed: bool
    waits_for_reopening: bool
    votes: int
    voters: int
    contest: Totals
    participants: Sequence[ParticipantEffect]
    at: str | None
    position: str


def void_text(result: VoidResult) -> Iterator[Block]:
    """Yield the participants, the most affected first, the contest, and last the outcome."""
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
    total, about = result.contest, f"{plural(result.votes, 'vote')} of {plural(result.voters, 'voter')}"
    contest = named(result.contest_key, result.title)
    yield f"Contest {contest}: {_arrow(total.count)} votes, {_arrow(total.unique_voter_count)} voters."
    yield f"By the log as of {result.at}; later votes are not affected. Position: {result.position}"
    if not result.votes:
        yield f"No votes can be {result.verb}."
    elif not result.executed:
        effect = "The contest is over: this changes its result only after `tally reopen`. "
        yield f"{about} would be {result.verb}. {effect if result.waits_for_reopening else ''}{AGAIN}"
    elif result.waits_for_reopening:
        yield f"Operation {result.void}: {about}."
        yield "Recorded; the result does not change until `tally reopen`."
    else:
        yield f"{result.verb.capitalize()}: {about}, as {result.void}."


def _arrow(pair: Pair) -> str:
    return f"{pair.before:,}" if pair.before == pair.after else f"{pair.before:,} -> {pair.after:,}"
