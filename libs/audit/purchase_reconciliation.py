"""Reconciles purchases with paid votes, both read directly from their logs."""

import time
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from libs.audit.purchase_logs import PurchasesLog, VoteName, VoteOrphan, read_paid_votes
from libs.contracts.purchase_events import (
    CAST,
    Purchase,
    PurchasedVotes,
    PurchaseRecorded,
    PurchaseStatus,
)
from libs.deployment.deployment import Deployment
from libs.purchases.encryption import AccountCiphers
from libs.purchases.fold import paid_vote
from libs.storage.object_store import Store
from libs.storage.secrets import account_secret, contest_secret
from libs.tally.errors import SecretErased

CASTS: Final = CAST | {PurchaseStatus.RECORDED}
"""Statuses of purchases whose votes are in the log, or on their way."""


@dataclass(frozen=True, slots=True)
class PurchaseOrphan:
    """A purchase whose votes are not in the expected state."""

    account: str
    key: str
    status: PurchaseStatus
    contest: str
    participant: str
    count: int


@dataclass(slots=True)
class Reconciliation:
    """Result of the reconciliation: `uncast` were bought but not counted, `unpaid` are counted but were not
    bought, `not_taken_back` are counted although their purchase was refunded or refused.

    The others are no orphans: `waiting` purchases are so recent that their votes may still be on their way; the
    removals of `held` ones wait for a reopening of their closed contest; the votes of `voided` ones were voided by
    an operator. The votes of `erased` purchases cannot be identified any more, as their contests' secrets were
    destroyed.
    """

    purchases: int = 0
    votes: int = 0
    quarantined: int = 0
    waiting: int = 0
    held: int = 0
    erased: int = 0
    voided: int = 0
    uncast: list[PurchaseOrphan] = field(default_factory=list)
    unpaid: list[VoteOrphan] = field(default_factory=list)
    not_taken_back: list[PurchaseOrphan] = field(default_factory=list)
    titles: dict[str, str] = field(default_factory=dict)
    """Titles of the contests and their participants, by key."""

    @property
    def fits(self) -> bool:
        return not (self.uncast or self.unpaid or self.not_taken_back)


async def reconcile_logs(deployment: Deployment, waiting_s: float) -> Reconciliation:
    """Reconcile the logs; purchases that change while the votes are read count as waiting.

    Raises `LogUnavailable`, `LogChanged`, `StorageUnavailable`, and `SecretLost`.
    """
    result = Reconciliation()
    log = PurchasesLog(deployment.reader, deployment.purchases)
    await log.read_on()
    paid = await read_paid_votes(deployment.reader, deployment.votes, deployment.progress)
    moving = await log.read_on()
    purchases = log.purchases
    result.purchases, result.quarantined, result.votes = len(purchases), log.quarantined, len(paid.counted)
    names = _Names(deployment.store, {name.contest for name in paid.counted.keys() | paid.voided})
    recent = time.time_ns() // 1000 - int(waiting_s * 1_000_000)
    for purchase in purchases.values():
        if purchase.recorded is None or purchase.recorded.vote is None:
            continue
        try:
            name = await names.of(purchase.account, purchase.recorded, purchase.recorded.vote)
        except SecretErased:
            result.erased += 1
            continue
        counts = name is not None and paid.counted.pop(name, None) is not None
        voided = name in paid.voided
        if (counts or voided) == (purchase.status in CASTS):
            result.voided += voided
            continue
        orphan = _orphan(purchase, purchase.recorded.vote)
        if (purchase.account, purchase.key) in moving or (purchase.is_open and purchase.updated > recent):
            result.waiting += 1
        elif not counts and not voided:
            result.uncast.append(orphan)
        elif name in paid.removal_waits:
            result.held += 1
        else:
            result.not_taken_back.append(orphan)
    result.unpaid = [vote for name, vote in paid.counted.items() if name.contest not in names.erased]
    return result


class _Names:
    """Derives the names of purchases' votes in the log, if their contest has any paid votes there."""

    def __init__(self, store: Store, contests: set[str]) -> None:
        self._store = store
        self._contests = contests
        self._ciphers = AccountCiphers(partial(account_secret, store))
        self._secrets: dict[str, bytes] = {}
        self.erased: set[str] = set()

    async def of(self, account: str, recorded: PurchaseRecorded, votes: PurchasedVotes) -> VoteName | None:
        """Return the vote's name. Raises `SecretErased`, and adds the contest to `erased`."""
        contest = votes.contest_key
        if contest not in self._contests:
            return None
        if contest not in self._secrets:
            try:
                self._secrets[contest] = await contest_secret(self._store, contest)
            except SecretErased:
                self.erased.add(contest)
                raise
        vote = paid_vote(recorded, votes, await self._ciphers.of(account), self._secrets[contest])
        return VoteName(contest, vote.voter, vote.vote_id)


def _orphan(purchase: Purchase, votes: PurchasedVotes) -> PurchaseOrphan:
    return PurchaseOrphan(
        purchase.account, purchase.key, purchase.status, votes.contest_key, votes.participant_key, votes.count
    )
