"""Older votes of a voter, which are stored beside the voter: each is found and listed."""

from typing import Final

import pytest

from libs.views.votes.serialization import digest
from tests.libs.views.partition import Partition
from tests.support.builders.contests import a_cast, pseudonym
from tests.support.clients.vote_views import VoteViews

VOTES: Final = 24
"""More than lie with their voter."""
VOTER: Final = pseudonym("voter")


@pytest.fixture
async def views(partition: Partition) -> VoteViews:
    """With votes of two voters with the same ids, in turns."""
    n = await partition.incarnation()
    voters = "voter", "another"
    await partition.fold(
        *(a_cast(voter=voter, vote_id=f"{number}", incarnation=n) for number in range(VOTES) for voter in voters)
    )
    return partition.views


async def listed(views: VoteViews, page_size: int) -> list[tuple[bytes, int | None]]:
    """Return digests and offsets of the first voter's votes, newest first, read in pages."""
    found: list[tuple[bytes, int | None]] = []
    while True:
        after = found[-1][0] if found else b""
        _, page = await views.votes_of(0, "contest", VOTER, after, page_size)
        found += [(name, state.offset) for name, state in page]
        if len(page) < page_size:
            return found


@pytest.mark.parametrize("page_size", [1, 7, VOTES])
async def test_all_votes_are_listed_newest_first_by_pages_of_any_size(views: VoteViews, page_size: int) -> None:
    first = 2  # after the log's beginning and a fence
    expected = [(digest(f"{number}"), first + 2 * number) for number in reversed(range(VOTES))]
    assert await listed(views, page_size) == expected


async def test_nothing_follows_an_id_that_is_not_among_the_votes(views: VoteViews) -> None:
    _, page = await views.votes_of(0, "contest", VOTER, digest("never cast"), 50)
    assert page == []
