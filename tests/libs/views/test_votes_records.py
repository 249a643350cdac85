"""Records of votes: short, and every number is restored as it was."""

from dataclasses import replace
from itertools import product
from typing import Final

import pytest

from libs.contracts.log_records import Position
from libs.contracts.vote_states import VoteName
from libs.tally.events import VoteCast
from libs.tally.voter_ledger import FoldedVote, VoteStatus
from libs.views.valkey.client import ValkeyClient
from libs.views.votes.ledger_scan import LedgerScan, read_voter
from libs.views.votes.reply_types import FoldInput
from libs.views.votes.serialization import raw
from libs.views.votes.vote_records import read_record, record_of
from libs.views.votes.vote_views import APPLY_ITEMS, VoteViews
from tests.support.builders import NOW, a_cast, a_removal, terms_of

REMAINING: Final = (None, 0, 127, 128, 255, 256, 2**31 - 1)
COUNTS: Final = (1, 255, 256, 2**24 - 1)
RENEWALS: Final = (None, 1, NOW - 1, NOW + 86_400_000_000, 2**53 - 1)
INDEXES: Final = (1, 255, 256, 257)
EPOCHS: Final = (0, 1, 2**28 - 1)
"""Numbers on both sides of each form's bounds."""


async def fold(views: VoteViews, events: list[VoteCast]) -> None:
    inputs = [FoldInput(event, offset, 0) for offset, event in enumerate(events)]
    for at in range(0, len(inputs), APPLY_ITEMS):
        batch = inputs[at : at + APPLY_ITEMS]
        await views.apply(0, Position("log", at), batch, at + len(batch))


async def stored(views: VoteViews) -> dict[bytes, bytes]:
    """Return the first record of each voter."""
    (page,) = [await LedgerScan(views._valkey, views._namespace, 1).fields(0, "voters", "contest")]
    return {voter: read_voter(value).records[0] for each in page for voter, value in each.rows}


async def test_every_number_of_a_vote_is_restored_from_its_record(valkey: ValkeyClient, namespace: str) -> None:
    views = VoteViews(valkey, namespace, 1)
    names = [f"p{index}" for index in range(1, max(INDEXES) + 1)]
    first = [a_cast(name, voter=f"first {name}") for name in names]
    members = product(REMAINING, REMAINING, COUNTS, RENEWALS, INDEXES)
    casts = [
        replace(
            a_cast(names[index - 1], count, voter=f"{number}", vote_id=f"{number}"),
            remaining_participant=left,
            remaining_contest=left_in_contest,
            next_free_vote_at=next_at,
            accepted_at=2**53 - 1 if number % 2 else number,
            epoch=EPOCHS[number % len(EPOCHS)],
        )
        for number, (left, left_in_contest, count, next_at, index) in enumerate(members)
    ]
    await fold(views, first + casts)
    records = await stored(views)
    for offset, cast in enumerate(casts, len(first)):
        vote = FoldedVote(cast, offset, VoteStatus.COUNTED, cast.epoch)
        [(participant, _)] = cast.choices
        assert records[raw(cast.voter)] == record_of(vote, names.index(participant) + 1)
    for at in range(0, len(casts), APPLY_ITEMS):
        asked = casts[at : at + APPLY_ITEMS]
        _, found = await views.lookups(0, [VoteName("contest", cast.voter, cast.vote_id) for cast in asked])
        for cast, state in zip(asked, found, strict=True):
            assert (state.content, state.terms) == (cast.content, terms_of(cast))


@pytest.mark.parametrize(
    ("cast", "size"),
    [
        (a_cast(remaining_participant=0, remaining_contest=4), 37),
        (a_cast(next_free_vote_at=NOW + 1), 48),
        (a_cast(epoch=3), 48),
        (a_cast(count=1_000), 41),
        (a_cast(remaining_contest=1_000), 43),
    ],
)
async def test_a_record_takes_no_more_bytes_than_its_numbers_need(
    valkey: ValkeyClient, namespace: str, cast: VoteCast, size: int
) -> None:
    views = VoteViews(valkey, namespace, 1)
    await fold(views, [cast])
    (record,) = (await stored(views)).values()
    assert len(record) == size


async def test_a_status_changes_nothing_else_of_a_record(valkey: ValkeyClient, namespace: str) -> None:
    views = VoteViews(valkey, namespace, 1)
    cast = a_cast(count=256, remaining_contest=128, next_free_vote_at=NOW + 1)
    await fold(views, [cast])
    (before,) = map(read_record, (await stored(views)).values())
    await views.apply(0, Position("log", 1), [FoldInput(a_removal(), 1, 0)], 2)
    (after,) = map(read_record, (await stored(views)).values())
    assert after == replace(before, status=VoteStatus.REMOVED)


async def test_a_plain_vote_of_a_renewed_allowance_takes_no_entry_beside_its_record(
    valkey: ValkeyClient, namespace: str
) -> None:
    views = VoteViews(valkey, namespace, 1)
    await fold(views, [a_cast(epoch=3, next_free_vote_at=NOW + 1)])
    pages = await LedgerScan(valkey, namespace, 1).fields(0, "details", "contest")
    assert [page.rows for page in pages] == [[]]
    (record,) = map(read_record, (await stored(views)).values())
    assert (record.epoch, record.next_free_vote_at) == (3, NOW + 1)
