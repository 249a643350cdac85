"""Steps of a purchase: casts its votes or takes them back, and returns the event to record."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from libs.contracts.purchase_events import (
    Purchase,
    PurchaseCast,
    PurchaseEvent,
    PurchaseRefused,
    PurchaseStatus,
    PurchaseTakenBack,
)
from libs.purchases.encryption import AccountCiphers, SecretLost
from libs.purchases.fold import paid_vote
from libs.tally.errors import RECOVERING, NotFound, SecretErased, TallyError, ViewsUnavailable
from libs.tally.vote_commands import CastVote
from libs.voting.contest_cache import ContestCache
from libs.voting.service import VotingService, count

UNDECIDED: Final = frozenset(
    {
        "log_unavailable",
        "views_unavailable",
        "ledger_catching_up",
        "overloaded",
        "purchase_unreadable",
        "internal_error",
    }
)
"""Codes that leave a purchase undecided. A different account secret may be a wrong setting."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Takes steps of purchases. Each may be repeated by any process, as a purchase has one vote id.

    A refusal is recorded first, then the vote id is used up, so that a slow attempt cannot cast it later.
    `kept` has deleted contests, too: after a restoration their votes count, unless they were taken back.
    `catalogue_is_folded(account)` returns whether the account's views have reached their log's end as of the call.
    """

    votes: VotingService
    kept: ContestCache
    ciphers: AccountCiphers
    catalogue_is_folded: Callable[[str], Awaitable[bool]]

    async def take(self, purchase: Purchase) -> PurchaseEvent:
        """Take the next step and return its event; raises a `TallyError` while undecided.

        Votes are taken back by a removal in the log. That is given up only if the contest's secret was destroyed,
        so that its votes cannot be identified, or if there never was such a contest.
        """
        casts = purchase.status is PurchaseStatus.RECORDED
        step = self._cast if casts else self._take_back
        try:
            try:
                return await step(purchase)
            except NotFound:
                # a refusal is final, but an emptied catalogue view has no contest yet
                if not await self.catalogue_is_folded(purchase.account):
                    why = "the catalogue's view lags behind"
                    raise ViewsUnavailable(RECOVERING, retry_after_s=1, cause=why) from None
                return await step(purchase)
        except TallyError as error:
            gone = isinstance(error, NotFound | SecretErased)
            if casts and (gone or error.code not in UNDECIDED):
                return PurchaseRefused(**_of(purchase), code=error.code, reason=error.message)
            if gone:
                return PurchaseTakenBack(**_of(purchase))
            if isinstance(error, SecretLost):
                self.ciphers.forget(purchase.account)
            raise

    async def _cast(self, purchase: Purchase) -> PurchaseEvent:
        [outcome] = await self.votes.cast(purchase.account, [await self._vote(purchase, self.votes.contests)])
        count([outcome])
        if isinstance(outcome, TallyError):
            raise outcome
        return PurchaseCast(**_of(purchase), accepted_at=outcome.terms.accepted_at)

    async def _take_back(self, purchase: Purchase) -> PurchaseEvent:
        vote = await self._vote(purchase, self.kept)
        await self.votes.refund(await self.kept.get(purchase.account, vote.contest), vote)
        return PurchaseTakenBack(**_of(purchase))

    async def _vote(self, purchase: Purchase, contests: ContestCache) -> CastVote:
        recorded = purchase.recorded
        assert recorded is not None
        assert recorded.vote is not None, "only purchases of votes are processed"
        cipher = await self.ciphers.of(purchase.account)
        secret = await contests.secret(purchase.account, recorded.vote.contest_key)
        return paid_vote(recorded, recorded.vote, cipher, secret)


def _of(purchase: Purchase) -> dict[str, Any]:
    return {"account": purchase.account, "key": purchase.key, "at": time.time_ns() // 1000}
