"""Responses with the vote count record."""

from typing import Any, Final

from libs.contracts.position_token import encode_positions
from libs.results.vote_count import updated, vote_count
from services.query.responses import Answer, encoded
from services.query.snapshot import Snapshot

FINALITY: Final = {False: "provisional", True: "final"}


def count_answer(snapshot: Snapshot) -> Answer:
    """Build the response without the breakdown by source."""
    return answer_of(snapshot, record(snapshot, sources=False))


def count_answer_by_source(snapshot: Snapshot) -> Answer:
    return answer_of(snapshot, record(snapshot, sources=True))


def record(snapshot: Snapshot, sources: bool) -> dict[str, Any]:
    created = snapshot.stored.created
    return vote_count(snapshot.contest, created, snapshot.counts, snapshot.results, sources=sources)


def last_update(snapshot: Snapshot) -> str | None:
    return updated(snapshot.stored.created, snapshot.counts)


def answer_of(snapshot: Snapshot, record: dict[str, Any]) -> Answer:
    """Encode the response for keys that may see the counts."""
    finality = FINALITY[snapshot.results.final]
    return encoded(
        record,
        [snapshot.phase, snapshot.visibility, finality],
        [
            (b"cache-control", b"private, max-age=1"),
            (b"tally-final", finality.encode()),
            (b"tally-position", encode_positions(snapshot.counts.positions).encode()),
        ],
    )
