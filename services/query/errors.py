"""Errors of reads of counts."""

from libs.tally.errors import TallyError


class ResultsHidden(TallyError):
    """The contest's `vote_visibility` hides its counts now, and the key may not see hidden ones."""

    code = "results_hidden"

    def __init__(self, visibility: str) -> None:
        super().__init__(
            f"The results are {visibility}; reading them needs a key with results:read_hidden.",
            vote_visibility=visibility,
        )
