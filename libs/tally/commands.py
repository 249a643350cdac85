"""What callers ask for, in the imperative. Identities are pseudonyms already; forms have been checked."""

from dataclasses import dataclass

from libs.tally.events import Platform, Rating, Source


@dataclass(frozen=True, slots=True)
class CastVote:
    """Cast a vote in a contest: for a participant, as a rating of one, or as a ballot over positions.

    `content` hashes everything that makes two requests the same vote (not address, not platform). `positions` are
    (position id, participant key) pairs. What of these must be there is the contest's to say.
    """

    contest: str
    voter: str
    anonymous: bool
    vote_id: str
    content: str
    source: Source = "c-free"
    participant: str | None = None
    count: int = 1
    rating: Rating | None = None
    positions: tuple[tuple[str, str], ...] | None = None
    platform: Platform | None = None
    address: str | None = None


@dataclass(frozen=True, slots=True)
class RemoveVote:
    """Take back a free vote, as its voter asks."""

    contest: str
    voter: str
    vote_id: str
