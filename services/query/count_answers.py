"""Builds the responses with a contest's counts from a snapshot."""

from functools import partial
from typing import Any, Final

from libs.results.contest_results import updated, vote_count
from services.query.counts_snapshot import Render, Snapshot
from services.query.encoded_response import EncodedResponse, encoded
from services.query.result_details import with_details, with_held

FINALITY: Final = {False: "provisional", True: "final"}


def count_answer(
    snapshot: Snapshot, *, sources: bool = False, held: bool = False, details: bool = False
) -> EncodedResponse:
    """Build the response: by source, also with `held` external counts, and with details."""
    shown = record(snapshot, sources)
    if held:
        shown = with_held(shown, snapshot)
    return answer_of(snapshot, with_details(shown, snapshot) if details else shown)


FLAGS: Final = ((False, False), (True, False), (False, True), (True, True))
ANSWERS: Final[dict[tuple[bool, bool], Render]] = {
    (sources, details): partial(count_answer, sources=sources, held=sources and details, details=details)
    for sources, details in FLAGS
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
