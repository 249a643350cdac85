"""Decides from whom a contest's counts are hidden: keys, the public, and screens."""

from collections.abc import Collection
from dataclasses import dataclass

from libs.catalogue.schemas.contest import Contest as ContestRecord
from libs.catalogue.schemas.contest import Show
from libs.tally.contest import Contest, Phase
from libs.tally.errors import TallyError


class ResultsHidden(TallyError):
    """The contest's `vote_visibility` hides its counts now, and the key may not see hidden ones."""

    code = "results_hidden"

    def __init__(self, visibility: str) -> None:
        super().__init__(
            f"The results are {visibility}; reading them needs a key with results:read_hidden.",
            vote_visibility=visibility,
        )


@dataclass(frozen=True, kw_only=True)
class CountVisibility:
    """Visibility of a contest's counts, by its `record`, its `show`, and its `phase`."""

    contest: Contest
    record: ContestRecord
    show: Show
    phase: Phase

    @property
    def visibility(self) -> str:
        return self.record.contest_config.vote_visibility

    @property
    def hides(self) -> bool:
        """True if the counts are hidden from keys without results:read_hidden, and from the public.

        A vote reveals `hidden_until_vote` only to its voter, not to keys. The log decides what may be seen: counts
        that are hidden until the end are until the contest is closed, whatever the time is here.
        """
        if self.waits_for_release:
            return True
        if self.visibility in ("shown", "hidden"):
            return self.visibility == "hidden"
        return not self.contest.closed

    @property
    def waits_for_release(self) -> bool:
        """True if the contest has ended, and its result is released by hand later.

        Here the clock of this process can only hide counts that the log still shows until the closing.
        """
        if self.record.contest_config.result_release == "at_end" or self.show.is_released:
            return False
        return self.contest.closed > 0 or self.phase is Phase.FINISHED

    def check_visible(self, permissions: Collection[str]) -> None:
        """Raise `ResultsHidden` if a key with these permissions may not see the counts now."""
        if "results:read_hidden" not in permissions and self.hides:
            raise ResultsHidden(self.visibility)

    def hides_from_public(self, has_voted: bool) -> bool:
        """Return whether the counts are hidden from callers without a key."""
        opens = has_voted and self.visibility == "hidden_until_vote" and not self.waits_for_release
        return self.hides and not opens

    @property
    def hides_from_screens(self) -> bool:
        """True if screens show no counts at all: a show can reveal hidden ones, or show all of them."""
        return self.show.state in ("live", "held") and self.hides_from_public(has_voted=False)
