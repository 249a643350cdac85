"""Which participants of a contest a reader sees, in which order."""

from collections.abc import Mapping, Sequence

from libs.catalogue.schemas.contest import ContestConfig
from libs.contracts.catalogue import Stored


def listed(participants: Sequence[Stored], rules: ContestConfig, votes: Mapping[str, int] | None) -> list[Stored]:
    """In the contest's `participant_order`, cut off at its `limit_result_amount`.

    By `vote_count` the most come first, equal ones by running number. `votes` is None while the counts are hidden
    from the reader: then order and cut-off go by running number, and say nothing of them.
    """
    found = sorted(participants, key=lambda stored: stored.number)
    if votes is not None and rules.participant_order == "participated":
        found.sort(key=lambda stored: stored.created)
    elif votes is not None and rules.participant_order == "vote_count":
        found.sort(key=lambda stored: -votes.get(stored.key, 0))
    limit = rules.limit_result_amount
    return found if limit < 0 else found[:limit]
