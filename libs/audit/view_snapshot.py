"""Reads a view in pieces, each in one atomic call and with its exact position."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from libs.audit.contest_hash_fields import HASHES
from libs.audit.count_differences import counts_differences, state_differences
from libs.audit.difference import Difference
from libs.audit.hash_fields import Hash
from libs.audit.log_fold import LogFold
from libs.contracts.log_records import Position
from libs.views.ledger_scan import HashPage, LedgerScan
from libs.views.vote_views import VoteViews


class Piece(NamedTuple):
    """Part of a view at `position`; `check` compares it with the fold of the log up to there."""

    position: Position
    check: Callable[[LogFold], Iterable[Difference]]


async def read_pieces(views: VoteViews, pages: LedgerScan, partition: int, contests: Sequence[str]) -> list[Piece]:
    """Return the partition's state and all that its view holds about `contests`, in the order of reading."""
    state, counts = await asyncio.gather(
        views.state(partition), asyncio.gather(*(views.counts(partition, contest) for contest in contests))
    )
    pieces = [Piece(state.position, partial(state_differences, state=state))]
    of_contests: list[Piece] = []
    for contest, count in zip(contests, counts, strict=True):
        assert count is not None, "counts were read unconditionally"
        of_contests.append(Piece(count.position, partial(counts_differences, contest=contest, counts=count)))
    # read in one call, except for large external sources
    pieces += sorted(of_contests, key=lambda piece: piece.position.offset)
    for contest in contests:
        for stored in HASHES:
            pieces += _fields(contest, stored, await pages.fields(partition, stored.name, contest))
    return pieces


def _fields(contest: str, stored: Hash, pages: list[HashPage]) -> Iterator[Piece]:
    """Check the fields of a hash: each one expected at the first page must be on one of the pages."""
    expected: set[bytes] = set()
    seen = {field for page in pages for field, _ in page.rows}

    def note(fold: LogFold) -> Iterable[Difference]:
        expected.update(stored.expected(fold, contest))
        return ()

    yield Piece(pages[0].position, note)
    for page in pages:
        yield Piece(page.position, partial(stored.compare, contest=contest, page=page))
    yield Piece(pages[-1].position, lambda fold: stored.missing(fold, contest, expected - seen))
