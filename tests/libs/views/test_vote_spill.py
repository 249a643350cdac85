"""Older votes of a voter, which are stored beside the voter: each is found and listed."""

from typing import Final

import pytest

from libs.contracts.log_records import Position
from libs.tally.events import Event
from libs.views.valkey.client import ValkeyClient
from libs.views.votes.serialization import digest
from tests.support.builders import a_cast, pseudonym
from tests.support.vote_views import FoldInput, VoteViews

VOTES: Final = 24
"""More than lie with their voter."""
VOTER: Final = pseudonym("voter")


class Folded:
    """Votes of two voters with the same ids, in turns."""

    def __init__(self, views: VoteViews) -> None:
        self.views = views
        self.end = 0

    async def fold(self, *events: Event) -> None:
        inputs = [FoldInput(event, at, 0) for at, event in enumerate(events, self.end)]
        await self.views.apply(0, Position("log", self.end), inputs, self.end + len(events))
        self.end += len(events)

    async def listed(self, page_size: int) -> list[tuple[bytes, int | None]]:
        """Return digests and offsets of the first voter's votes, newest first, read in pages."""
        found: list[tuple[bytes, int | None]] = []
        while True:
            after = found[-1][0] if found else b""
            _, page = await self.views.votes_of(0, "contest", VOTER, after, page_size)
            found += [(name, state.offset) for name, state in page]
            if len(page) < page_size:
                return found


@pytest.fixture
async def folded(valkey: ValkeyClient, namespace: str) -> Folded:
    folded = Folded(VoteViews(valkey, namespace, 1))
    for number in range(VOTES):
        await folded.fold(*(a_cast(voter=voter, vote_id=f"{number}") for voter in ("voter", "another")))
    return folded


@pytest.mark.parametrize("page_size", [1, 7, VOTES])
async def test_all_votes_are_listed_newest_first_by_pages_of_any_size(folded: Folded, page_size: int) -> None:
    expected = [(digest(f"{number}"), 2 * number) for number in reversed(range(VOTES))]
    assert await folded.listed(page_size) == expected


async def test_nothing_follows_an_id_that_is_not_among_the_votes(folded: Folded) -> None:
    _, page = await folded.views.votes_of(0, "contest", VOTER, digest("never cast"), 50)
    assert page == []
