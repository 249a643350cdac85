"""What callers ask for, in the imperative. Identities are pseudonyms already; forms have been checked."""

from dataclasses import dataclass

from libs.tally.events import Platform, Source


@dataclass(frozen=True, slots=True)
class CastVote:
    """Cast the votes of one voter for one contest.

    `content` hashes everything that makes two requests the same vote (not address, not platform).
    """

    contest: str
    voter: str
    anonymous: bool
    vote_id: str
    content: str
    source: Source
    choices: tuple[tuple[str, int], ...]
    platform: Platform | None = None
    address: str | None = None

    @property
    def votes(self) -> int:
        """The sum of the counts: what the limits bound."""
        return sum(count for _, count in self.choices)
