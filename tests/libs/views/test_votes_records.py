"""Records of votes: short, and every number is restored as it was."""

from dataclasses import replace
from itertools import product
from typing import Final

from libs.audit.ledger_facts import voter_facts
from libs.contracts.vote_states import VoteName
from libs.tally.fold import PartitionTally
from libs.views.valkey.client import ValkeyClient
from libs.views.votes.ledger_export import export
from libs.views.votes.vote_views import APPLY_ITEMS
from tests.libs.views.partition import Partition
from tests.support.builders.contests import NOW, a_cast, terms_of
from tests.support.clients.vote_views import VoteViews

REMAINING: Final = (None, 0, 127, 128, 255, 256, 2**31 - 1)
COUNTS: Final = (1, 255, 256, 2**24 - 1)
RENEWALS: Final = (None, 1, NOW - 1, NOW + 86_400_000_000, 2**53 - 1)
INDEXES: Final = (1, 255, 256, 257)
EPOCHS: Final = (0, 1, 2**28 - 1)
"""Numbers on both sides of each form's bounds."""


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
    log, partition, tally = first + casts, Partition(views), PartitionTally()
    for offset, cast in enumerate(log):
        tally.evolve(cast, offset, 1_000 + offset)
    for at in range(0, len(log), APPLY_ITEMS):
        await partition.fold(*log[at : at + APPLY_ITEMS])
    stored = dict(fact for page in await export(views, 0, "voters", "contest") for fact in page.facts.items())
    assert stored == dict(voter_facts(tally.contests["contest"]))
    for at in range(0, len(casts), APPLY_ITEMS):
        asked = casts[at : at + APPLY_ITEMS]
        _, found = await views.lookups(0, [VoteName("contest", cast.voter, cast.vote_id) for cast in asked])
        for cast, state in zip(asked, found, strict=True):
            assert (state.content, state.terms) == (cast.content, terms_of(cast))
