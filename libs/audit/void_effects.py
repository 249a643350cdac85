"""Effects of voiding or restoring votes on a contest's ranking."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from libs.audit.ballots import Ballots, VoidEvent
from libs.results.results import places


@dataclass(frozen=True, slots=True)
class Row:
    """A participant, or the contest itself (no rank); each pair is before and after."""

    participant: str
    title: str
    count: tuple[int, int]
    voters: tuple[int, int]
    rank: tuple[int, int] | None

    def as_json(self) -> dict[str, Any]:
        return {
            **({"participant_key": self.participant, "title": self.title} if self.rank else {}),
            **_pair("count", self.count),
            **_pair("unique_voter_count", self.voters),
            **(_pair("rank", self.rank) if self.rank else {}),
        }


@dataclass(frozen=True, slots=True)
class Effect:
    """Participants, the most affected first, and the contest; `votes` and `voters` are those of the events."""

    votes: int
    voters: int
    rows: Sequence[Row]
    total: Row


def effect(
    ballots: Ballots, before: dict[str, Any], after: dict[str, Any], events: Sequence[tuple[int, VoidEvent]]
) -> Effect:
    """Return the effect of `events`, by partition, on the counts: from one vote count record to another."""
    titles = {stored.key: stored.document.get("title") or "" for stored in ballots.config.participants}
    then, now = before["participants"], after["participants"]
    ranks = [places(entry["count"] for entry in record.values()) for record in (then, now)]
    rows = [
        Row(
            participant=key,
            title=titles.get(key, ""),
            count=(entry["count"], now[key]["count"]),
            voters=(entry["unique_voter_count"], now[key]["unique_voter_count"]),
            rank=(ranks[0][entry["count"]], ranks[1][now[key]["count"]]),
        )
        for key, entry in then.items()
    ]
    rows.sort(key=lambda row: (-abs(row.count[1] - row.count[0]), -row.count[0]))
    count, voters = ((before[name], after[name]) for name in ("count", "unique_voter_count"))
    return Effect(
        votes=len(events),
        voters=len({event.voter for _, event in events}),
        rows=rows,
        total=Row("", "", count, voters, None),
    )


def _pair(name: str, pair: tuple[int, int]) -> dict[str, Any]:
    return {name: {"before": pair[0], "after": pair[1]}}
