"""The content hash of a vote, which detects the reuse of its id for a different vote."""

from collections.abc import Sequence

from libs.contracts.pseudonyms import content_hash
from libs.tally.events import Rating, Source


def content_of(
    voter: str,
    source: Source,
    participant: str | None,
    count: int,
    rating: Rating | None = None,
    positions: Sequence[tuple[str, str]] | None = None,
) -> str:
    """Hash a vote's content: all but its id, address and platform. `positions` must be sorted by id."""
    if rating is None and positions is None:
        return content_hash(voter, source, participant, count)
    return content_hash(voter, source, participant, count, rating, positions)
