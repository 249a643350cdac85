"""Commands: cast a vote, remove a vote. Voters and addresses are pseudonyms; the request's form is validated."""

from typing import NamedTuple

from libs.tally.events import Platform, Rating, Source


class CastVote(NamedTuple):
    """Cast a vote in a contest: for a participant, as a rating of one, or as a ballot over positions.

    `content` is the hash of all members that identify the vote (not address, not platform). `positions` are
    (position id, participant key) pairs. The contest's type decides which members are required.
    """

    contest: str
    voter: str
    anonymous: bool
    vote_id: str
    content: str
    source: Source = "c-free"
    participant: str | None = None
    count: int = 1  # type: ignore[assignment]  # not the tuple's method
    rating: Rating | None = None
    positions: tuple[tuple[str, str], ...] | None = None
    platform: Platform | None = None
    address: str | None = None


class RemoveVote(NamedTuple):
    """Remove a free vote on its voter's request."""

    contest: str
    voter: str
    vote_id: str
