"""Result of swapping in another generation of the views, and the errors of one that is refused."""

from typing import Final, NamedTuple, Self

from libs.tally.errors import TallyError


class FencesDiffer(TallyError):
    """The generation was folded by other fences than the live one: accepted votes would no longer count."""

    code = "fences_differ"

    @classmethod
    def of(cls, number: int, partition: str) -> Self:
        return cls(
            f"Generation {number} of {partition} was folded by other fences (records that end doubt about earlier "
            "votes) than the live view, since one of them was in quarantine: accepted votes could no longer "
            "count. --accept-differences swaps anyway; voting in that partition resumes after a new fence."
        )


FENCES_DIFFER: Final = "fences differ"


class Swap(NamedTuple):
    """Result of a swap; `reason` if it was not `done`.

    `reason` is the generation's state, "gone", FENCES_DIFFER, or "moving": retry.
    """

    done: bool
    reason: str = ""
