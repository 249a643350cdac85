"""Responses with the vote count record."""

from typing import Any, Final

from libs.results.contest_results import updated, vote_count
from services.query.counts_snapshot import Render, Snapshot
from services.query.encoded_response import EncodedResponse, encoded
from services.query.result_details import with_details, with_held

FINALITY: Final = {False: "provisional", True: "final"}


def count_answer(snapshot: Snapshot) -> EncodedResponse:
    """Build the response without the breakdown by source."""
    return answer_of(snapshot, record(snapshot, sources=False))


def count_answer_by_source(snapshot: Snapshot) -> EncodedResponse:
    return answer_of(snapshot, record(snapshot, sources=True))


def held_answer_by_source(snapshot: Snapshot) -> EncodedResponse:
    """Build the response by source with held external counts."""
    return answer_of(snapshot, with_held(record(snapshot, sources=True), snapshot))


def detailed_answer(snapshot: Snapshot) -> EncodedResponse:
    """Build the response with details, without the breakdown by source."""
    return answer_of(snapshot, with_details(record(snapshot, sources=False), snapshot))


def detailed_answer_by_source(snapshot: Snapshot) -> EncodedResponse:
    return answer_of(snapshot, with_details(with_held(record(snapshot, sources=True), snapshot), snapshot))


ANSWERS: Final[dict[tuple[bool, bool], Render]] = {
    (False, False): count_answer,
    (True, False): count_answer_by_source,
    (False, True): detailed_answer,
    (True, True): detailed_answer_by_source,
}
"""Responses by the flags `sources` and `details`."""


def record(snapshot: Snapshot, sources: bool) -> dict[str, Any]:
    created = snapshot.stored.created
    return vote_count(snapshot.contest, created, snapshot.counts, snapshot.results, sources=sources)


def last_update(snapshot: Snapshot) -> str | None:
    return updated(snapshot.stored.created, snapshot.counts)


def answer_of(snapshot: Snapshot, record: dict[str, Any]) -> EncodedResponse:
    """Encode the response for keys that may see the counts; `Tally-Position` is added when it is sent."""
    finality = FINALITY[snapshot.results.final]
    return encoded(
        record,
        [snapshot.phase, snapshot.visibility, finality],
        [
            (b"cache-control", b"private, max-age=1"),
            (b"tally-final", finality.encode()),
        ],
        snapshot.counts.positions,
    )
