"""Effects of voiding or restoring votes on a contest's ranking."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from libs.audit.historical_counts import titles_of
from libs.audit.recount import Ballots, VoidEvent
from libs.results.contest_results import entry_rank_key, places


class Pair(NamedTuple):
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Totals:
    """Votes and voters of the contest."""

    count: Pair
    unique_voter_count: Pair


@dataclass(frozen=True, slots=True)
class ParticipantEffect:
    """Votes, voters and rank of a participant."""

    participant_key: str
    title: str
    count: Pair
    unique_voter_count: Pair
    rank: Pair


@dataclass(frozen=True, slots=True)
class Effect:
    """Participants, by the change of their rank, and the contest; `votes` and `voters` are those of the events."""

    votes: int
    voters: int
    rows: Sequence[ParticipantEffect]
    total: Totals


def effect(
    ballots: Ballots, before: dict[str, Any], after: dict[str, Any], events: Sequence[tuple[int, VoidEvent]]
) -> Effect:
    """Return the effect of `events`, by partition, on the counts: from one vote count record to another."""
    titles = titles_of(ballots.config)
    then, now = before["participants"], after["participants"]
    ranks = [places(map(entry_rank_key, record.values())) for record in (then, now)]
    rows = [
        ParticipantEffect(
            participant_key=key,
            title=titles.get(key, ""),
            count=Pair(entry["count"], now[key]["count"]),
            unique_voter_count=Pair(entry["unique_voter_count"], now[key]["unique_voter_count"]),
            rank=Pair(ranks[0][entry_rank_key(entry)], ranks[1][entry_rank_key(now[key])]),
        )
        for key, entry in then.items()
    ]
    rows.sort(key=lambda row: (-_change(row.rank), -_change(row.count), row.rank.after))
    count, voters = (Pair(before[name], after[name]) for name in ("count", "unique_voter_count"))
    return Effect(len(events), len({event.voter for _, event in events}), rows, Totals(count, voters))


def _change(pair: Pair) -> int:
    return abs(pair.after - pair.before)
