"""Order and selection of a contest's participants in results."""

from collections.abc import Mapping, Sequence

from libs.catalogue.schemas.contest import ContestConfig
from libs.contracts.catalogue_events import Stored

Comparable = int | tuple[int, ...]


def listed(
    participants: Sequence[Stored], rules: ContestConfig, votes: Mapping[str, Comparable] | None
) -> list[Stored]:
    """Sort by the contest's `participant_order` and limit to its `limit_result_amount`.

    By `vote_count`, the largest of `votes` (counts, or sort keys of ranks) is first, and equal ones are ordered by
    running number. If the counts are hidden from the reader, `votes` is None and the order is by running number,
    so that it reveals nothing.
    """
    found = sorted(participants, key=lambda stored: stored.number)
    if votes is not None and rules.participant_order == "participated":
        found.sort(key=lambda stored: stored.created)
    elif votes is not None and rules.participant_order == "vote_count":
        counted = [stored for stored in found if stored.key in votes]
        counted.sort(key=lambda stored: votes[stored.key], reverse=True)
        found = counted + [stored for stored in found if stored.key not in votes]
    limit = rules.limit_result_amount
    return found if limit < 0 else found[:limit]
