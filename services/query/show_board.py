"""The counts that the screens of a contest show: those that its show allows now, and nothing else."""

from typing import Any, Final

from libs.catalogue.contests.contest_mapper import listed
from libs.catalogue.schemas.contest import ContestConfig
from libs.contracts.catalogue_events import Stored
from libs.results.contest_counts import NO_RATINGS, NOTHING
from libs.results.contest_results import places, rank_keys, rating
from services.query.count_answers import last_update
from services.query.counts_snapshot import Snapshot
from services.query.encoded_response import EncodedResponse, encoded

BY_VOTES = ContestConfig(participant_order="vote_count")
POINTS: Final = (12, 10, 8, 7, 6, 5, 4, 3, 2, 1)
"""Points of the best places, which a show can reveal in place of counts."""


def board_answer(snapshot: Snapshot) -> EncodedResponse:
    """Build the body of a stream's `board` event."""
    return encoded(board(snapshot), [], [])


def linked_board_answer(snapshot: Snapshot) -> EncodedResponse:
    """Build the same for a link, which names no participants that public results do not name."""
    if snapshot.names_participants:
        return board_answer(snapshot)
    return encoded(board(snapshot) | {"participants": []}, [], [])


def board(snapshot: Snapshot) -> dict[str, Any]:
    """Build the board. While places are covered it has neither their counts nor a total that would show them; of a
    reveal of points it has no counts at all."""
    shown = snapshot.frozen or snapshot
    kind = snapshot.contest.contest_type
    keys = rank_keys(kind, shown.counts, shown.results)
    ranks = places(keys)
    in_order = listed(shown.approved, BY_VOTES, keys)
    is_reveal = snapshot.show.state == "reveal"
    first_open = _first_open(ranks, snapshot.show.revealed) if is_reveal else 1
    revealed = [stored for stored in in_order if ranks[stored.key] >= first_open]
    covered = len(in_order) - len(revealed)
    totals = shown.results.totals
    has_points = is_reveal and snapshot.show.reveals == "points"
    has_sums = covered == 0 and not has_points
    whole = totals[""] if has_sums else NOTHING

    def entry(stored: Stored) -> dict[str, Any]:
        key, sums = stored.key, totals[stored.key]
        ratings = shown.counts.ratings.get(key, NO_RATINGS)
        if has_points:
            points = POINTS[ranks[key] - 1] if ranks[key] <= len(POINTS) else 0
            return {"participant_key": key, "rank": ranks[key], "points": points}
        return {
            "participant_key": key,
            "rank": ranks[key],
            "count": sums.count,
            "unique_voter_count": sums.unique,
            "share": sums.count / max(1, whole.count) if has_sums else None,
            **({"rating": rating((), ratings)} if kind == "rating" else {}),
        }

    return {
        "contest_key": snapshot.contest.key,
        "contest_type": kind,
        "held_at": snapshot.show.shown()["held_at"],
        "final": shown.results.final,
        "updated": last_update(shown),
        "count": whole.count if has_sums else None,
        "unique_voter_count": whole.unique if has_sums else None,
        "anonymous_voter_count": whole.anonymous if has_sums else None,
        "covered": covered,
        "participants": [entry(stored) for stored in revealed],
    }


def _first_open(ranks: dict[str, int], revealed: int) -> int:
    """Return the best rank that is open after so many places, which participants may share."""
    last_first = sorted({*ranks.values()}, reverse=True)
    if revealed >= len(last_first):
        return 1
    return last_first[revealed - 1] if revealed else len(ranks) + 1
