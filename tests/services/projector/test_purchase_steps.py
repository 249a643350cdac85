"""The steps of a purchase: a refund ends once its votes are removed, or can no longer be."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from libs.contracts.purchase_events import (
    Purchase,
    PurchasedVotes,
    PurchaseRefused,
    PurchaseStatus,
    PurchaseTakenBack,
)
from libs.purchases.encryption import AccountCiphers, Buyer
from libs.storage.object_store import StorageUnavailable
from libs.tally.contest import Contest
from libs.tally.errors import IdempotencyKeyReused, SecretErased, TallyError, ViewsUnavailable
from libs.tally.vote_commands import CastVote
from libs.voting import contest_cache
from libs.voting.contest_cache import ContestCache
from services.projector.purchase_steps import Steps
from services.projector.uncounted_purchases import LONGEST_REST_S, rest_s
from tests.support.builders.contests import a_contest
from tests.support.builders.purchases_log import a_purchase


async def account_secret(account: str) -> bytes:
    return bytes(32)


@dataclass
class Casting:
    """Stands for the voting service, the catalogue and the object store: all that steps come upon."""

    contests: ContestCache = field(init=False)
    kept: ContestCache = field(init=False)
    removed: set[str] = field(default_factory=set)
    trouble: TallyError | None = None
    cannot_load: TallyError | None = None
    is_deleted: bool = False
    is_unknown: bool = False
    is_erased: bool = False
    is_folded: bool = True

    def __post_init__(self) -> None:
        self.contests = ContestCache(self.load, self.load_version, self.load_secret, most_contests=1)
        self.kept = ContestCache(self.load_kept, self.load_version, self.load_secret, most_contests=1)

    async def load(self, account: str, key: str) -> Contest | None:
        return None if self.is_deleted else await self.load_kept(account, key)

    async def load_kept(self, account: str, key: str) -> Contest | None:
        await asyncio.sleep(0)
        return None if self.is_unknown else replace(a_contest(), key=key, is_erased=self.is_erased)

    async def load_version(self, account: str, key: str) -> int | None:
        await asyncio.sleep(0)
        return 1

    async def load_secret(self, key: str) -> bytes:
        await asyncio.sleep(0)
        if self.cannot_load is not None:
            raise self.cannot_load
        return key.encode()

    async def refund(self, contest: Contest, command: CastVote) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.removed.add(command.contest)

    async def cast(self, account: str, commands: list[CastVote]) -> list[Any]:
        return [self.trouble]

    async def folded(self, account: str) -> bool:
        return self.is_folded

    @property
    def steps(self) -> Steps:
        return Steps(self, self.kept, AccountCiphers(account_secret), self.folded)  # type: ignore[arg-type]


@pytest.fixture
def casting(monkeypatch: pytest.MonkeyPatch) -> Casting:
    """That remembers one contest, and that for no time."""
    monkeypatch.setattr(contest_cache, "RECENT_S", 0.0)
    return Casting()


async def a_refund(contest: str = "c1", status: PurchaseStatus = PurchaseStatus.REFUNDED) -> Purchase:
    cipher = await AccountCiphers(account_secret).of("a1")
    buyer = Buyer("u1", f"token of {contest}")
    vote = PurchasedVotes(contest_key=contest, participant_key="p1", count=3)
    recorded = a_purchase(key=cipher.key(buyer.purchase_token), sealed=cipher.seal(buyer), vote=vote)
    return Purchase(
        account="a1", key=recorded.key, status=status, created=1, updated=1, offset=1, recorded=recorded
    )


async def test_a_refund_removes_its_votes_though_the_secret_went_out_of_memory(casting: Casting) -> None:
    """With room for one contest, loads of others come between all steps of each."""
    names = [f"c{number}" for number in range(12)]
    refunds = [await a_refund(name) for name in names]
    events = await asyncio.gather(*(casting.steps.take(refund) for refund in refunds * 3))
    assert all(isinstance(event, PurchaseTakenBack) for event in events)
    assert casting.removed == set(names)


TROUBLES: dict[str, Callable[[Casting], None]] = {
    "the object store is away": lambda casting: setattr(casting, "cannot_load", StorageUnavailable("away")),
    "the catalogue is behind": lambda casting: casting.__dict__.update(is_unknown=True, is_folded=False),
    "the views are away": lambda casting: setattr(casting, "trouble", ViewsUnavailable("away")),
    "something else": lambda casting: setattr(casting, "trouble", IdempotencyKeyReused("of another")),
}


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_a_refund_that_removed_nothing_is_tried_again(casting: Casting, trouble: str) -> None:
    TROUBLES[trouble](casting)
    with pytest.raises(TallyError):
        await casting.steps.take(await a_refund())


@pytest.mark.parametrize("erased", [True, False], ids=["by its record", "by the mark"])
async def test_votes_that_nobody_can_find_any_more_are_given_up(casting: Casting, erased: bool) -> None:
    casting.is_erased = erased
    casting.cannot_load = None if erased else SecretErased("c1")
    assert isinstance(await casting.steps.take(await a_refund()), PurchaseTakenBack)
    assert isinstance(await casting.steps.take(await a_refund(status=PurchaseStatus.RECORDED)), PurchaseRefused)


@pytest.mark.parametrize("status", [PurchaseStatus.REFUNDED, PurchaseStatus.REFUSED])
async def test_votes_in_a_deleted_contest_are_removed_before_they_are_marked_as_taken_back(
    casting: Casting, status: PurchaseStatus
) -> None:
    """A refused one, too: its votes may have been cast without an answer before the contest was deleted."""
    casting.is_deleted = True
    assert isinstance(await casting.steps.take(await a_refund(status=status)), PurchaseTakenBack)
    assert casting.removed == {"c1"}


async def test_a_purchase_for_a_deleted_contest_is_refused_once_the_catalogue_is_folded(casting: Casting) -> None:
    casting.is_deleted, casting.is_folded = True, False
    recorded = await a_refund(status=PurchaseStatus.RECORDED)
    with pytest.raises(ViewsUnavailable):
        await casting.steps.take(recorded)
    casting.is_folded = True
    assert isinstance(await casting.steps.take(recorded), PurchaseRefused)


async def test_a_purchase_for_a_contest_that_never_was_is_ended(casting: Casting) -> None:
    casting.is_deleted = casting.is_unknown = True
    assert isinstance(await casting.steps.take(await a_refund(status=PurchaseStatus.RECORDED)), PurchaseRefused)
    assert isinstance(await casting.steps.take(await a_refund()), PurchaseTakenBack)
    assert not casting.removed


def test_a_pass_is_a_small_share_of_the_time_and_a_frozen_one_delays_the_next_by_seconds_only() -> None:
    """Of comparing paid votes with their participants."""
    assert rest_s(0.5) == 5.0
    assert rest_s(7.0) == rest_s(3600.0) == LONGEST_REST_S
