"""A view in pieces, each read in one atomic call and carrying the position at which it is exactly so."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from libs.contracts.log import Position
from libs.views.ledger import LedgerPages, SpillPage, VotersPage
from libs.views.votes import VoteViews
from services.operations.verification.differences import (
    Difference,
    counts_differences,
    missing_spill,
    missing_voters,
    spill_differences,
    spill_of,
    state_differences,
    voters_differences,
    voters_of,
)
from services.operations.verification.fold import LogFold


class Piece(NamedTuple):
    """Part of a view at `position`; `check` compares it with the fold of the log up to there."""

    position: Position
    check: Callable[[LogFold], Iterable[Difference]]


async def read_pieces(
    views: VoteViews, pages: LedgerPages, partition: int, contests: Sequence[str]
) -> list[Piece]:
    """The partition's state, and all that its view holds about `contests`, in the order of reading."""
    state, counts = await asyncio.gather(
        views.state(partition), asyncio.gather(*(views.counts(partition, contest) for contest in contests))
    )
    pieces = [Piece(state.position, partial(state_differences, state=state))]
    for contest, count in zip(contests, counts, strict=True):
        assert count is not None, "counts were asked for unconditionally"
        pieces.append(Piece(count.position, partial(counts_differences, contest=contest, counts=count)))
    for contest in contests:
        pieces += _voters(contest, await pages.voters(partition, contest))
        pieces += _spill(contest, await pages.spilled(partition, contest))
    return pieces


def _voters(contest: str, pages: list[VotersPage]) -> Iterator[Piece]:
    """Who had voted at the first page must have been on one of them."""
    expected: set[str] = set()
    seen = {row.voter for page in pages for row in page.rows}

    def note(fold: LogFold) -> Iterable[Difference]:
        expected.update(voters_of(fold, contest))
        return ()

    yield Piece(pages[0].position, note)
    for page in pages:
        yield Piece(page.position, partial(voters_differences, contest=contest, page=page))
    yield Piece(pages[-1].position, lambda fold: missing_voters(fold, contest, expected, seen))


def _spill(contest: str, pages: list[SpillPage]) -> Iterator[Piece]:
    """As with voters: a record once spilled stays as it is."""
    expected: set[tuple[str, bytes]] = set()
    seen = {row for page in pages for row in page.rows}

    def note(fold: LogFold) -> Iterable[Difference]:
        expected.update(spill_of(fold, contest))
        return ()

    yield Piece(pages[0].position, note)
    for page in pages:
        yield Piece(page.position, partial(spill_differences, contest=contest, page=page))
    yield Piece(pages[-1].position, lambda fold: missing_spill(fold, contest, expected, seen))
