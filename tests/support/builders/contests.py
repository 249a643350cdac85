"""Builders of contests, commands and events with defaults, so that a test names only what it tests."""

from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any

from libs.tally.contest import UNLIMITED, Contest
from libs.tally.events import Rating, SourceReported, VoteCast, VoteRemoved, VoteRestored, VoteVoided
from libs.tally.reservations import VoteTerms
from libs.tally.vote_commands import CastVote

NOW = 1_790_000_000_000_000
"""A time at which `a_contest` runs."""
LAST = 253_402_300_799_999_999
"""The last time (us) that a client can send; numbers in Lua are not exact up to it."""


def pseudonym(name: str, size: int = 18) -> str:
    """Return a voter's pseudonym in the log: unpadded base64url of `size` bytes."""
    return urlsafe_b64encode(sha256(name.encode()).digest()[:size]).rstrip(b"=").decode()


def content_hash(*parts: object) -> str:
    """Return the hash of a request's content: 8 bytes."""
    return pseudonym("content:" + repr(parts), 8)


def of_voter(voter: str) -> dict[str, Any]:
    """Return the members that name a voter, in commands and in events."""
    return {"contest": "contest", "voter": pseudonym(voter)}


def signed_in(voter: str, *content: object) -> dict[str, Any]:
    """Return the members of a signed-in voter's vote."""
    return of_voter(voter) | {"anonymous": False, "vote_id": "vote", "content": content_hash(*content)}


def a_contest(**changes: Any) -> Contest:
    """Build a contest without start and end: approved participants a, b, c; one free vote per participant."""
    given: dict[str, Any] = {"key": "contest", "account": "account", "version": 1, "publish": 1, "start": 1}
    return Contest(**{**given, "participants": dict.fromkeys("abc", "approved"), **changes})


def a_vote(participant: str = "a", count: int = 1, *, voter: str = "voter", **changes: Any) -> CastVote:
    """Build a signed-in voter's free vote."""
    given = signed_in(voter, participant, count)
    return CastVote(**{**given, "source": "c-free", "participant": participant, "count": count, **changes})


def a_rating(participant: str = "a", value: int = 4_000_000, *, voter: str = "voter", **changes: Any) -> CastVote:
    """Build a free rating; `sub_ratings` among the changes are (id, value) pairs."""
    rating = Rating(value, changes.pop("sub_ratings", ()))
    content = content_hash("rating", participant, rating)
    return a_vote(participant, voter=voter, **{"content": content, "rating": rating, **changes})


def a_ballot(*positions: tuple[str, str], voter: str = "voter", **changes: Any) -> CastVote:
    """Build a free ballot from (position id, participant) pairs."""
    return CastVote(**{**signed_in(voter, "ballot", positions), "positions": positions, **changes})


def a_cast(participant: str = "a", count: int = 1, *, voter: str = "voter", **changes: Any) -> VoteCast:
    """Build the event of `a_vote`, reserved before the first fence, without limits."""
    given: dict[str, Any] = {
        "source": "c-free",
        "choices": ((participant, count),),
        "accepted_at": NOW,
        "incarnation": 0,
        "config": 1,
        "max_participant": UNLIMITED,
        "max_contest": UNLIMITED,
        "epoch": 0,
        "remaining_participant": None,
        "remaining_contest": None,
        "next_free_vote_at": None,
        "receipt": "receipt",
    }
    return VoteCast(**{**signed_in(voter, participant, count), **given, **changes})


def a_removal(vote_id: str = "vote", *, voter: str = "voter", **changes: Any) -> VoteRemoved:
    """Build the removal of the vote of `a_cast` by its voter."""
    given = signed_in(voter, "a", 1) | {"vote_id": vote_id, "source": "c-free", "incarnation": 0}
    return VoteRemoved(**{**given, "removed_at": NOW, **changes})


def a_void(vote_id: str = "vote", *, voter: str = "voter", **changes: Any) -> VoteVoided:
    """Build the voiding of the vote of `a_cast` by an operator."""
    return VoteVoided(vote_id=vote_id, **{**of_voter(voter), "void": "void", "voided_at": NOW, **changes})


def a_restore(vote_id: str = "vote", *, voter: str = "voter", **changes: Any) -> VoteRestored:
    """Build the restoring of the vote that `a_void` voided."""
    return VoteRestored(vote_id=vote_id, **{**of_voter(voter), "void": "void", "restored_at": NOW, **changes})


def a_report(report_id: str = "report", *counts: tuple[str, int, int, int], **changes: Any) -> SourceReported:
    """Build a cumulative report of an SMS gateway, by its own participant ids."""
    given: dict[str, Any] = {
        "contest": "contest",
        "source": "sms",
        "report_id": report_id,
        "content": content_hash(report_id, counts),
        "mode": "cumulative",
        "allow_decrease": False,
        "reported_at": None,
        "counts": counts,
    }
    return SourceReported(**{**given, **changes})


def terms_of(cast: VoteCast) -> VoteTerms:
    """Return the terms that the vote was recorded with."""
    left = cast.remaining_participant, cast.remaining_contest
    return VoteTerms(cast.accepted_at, *left, cast.next_free_vote_at, cast.choices)
