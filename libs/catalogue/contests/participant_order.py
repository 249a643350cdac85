"""Order and selection of a contest's participants in results."""

from collections.abc import Mapping, Sequence

from libs.catalogue.schemas.contest import ContestConfig
from libs.contracts.catalogue import Stored


def listed(participants: Sequence[Stored], rules: ContestConfig, votes: Mapping[str, int] | None) -> list[Stored]:
    """Sort by the contest's `participant_order` and limit to its `limit_result_amount`.

    By `vote_count`, the largest count is first, and equal counts are ordered by running number. If the counts are
    hidden from the reader, `votes` is None and the order is by running number, so that it reveals nothing.
    """
    found = sorted(participants, key=lambda stored: stored.number)
    if votes is not None and rules.participant_order == "participated":
        found.sort(key=lambda stored: stored.created)
    elif votes is not None and rules.participant_order == "vote_count":
        found.sort(key=lambda stored: -votes.get(stored.key, 0))
    limit = rules.limit_result_amount
    return found if limit < 0 else found[:limit]
