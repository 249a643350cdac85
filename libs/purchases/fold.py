"""Reference fold of one partition of the purchases log, and the votes that its purchases pay for.

Tests keep `purchases/purchases.lua` equal to the fold.
"""

from dataclasses import dataclass, field, replace
from typing import assert_never

from libs.contracts.pseudonyms import content_of, pseudonym
from libs.contracts.purchase_events import (
    Purchase,
    PurchaseCast,
    PurchaseCountedAgain,
    PurchasedVotes,
    PurchaseEvent,
    PurchaseRecorded,
    PurchaseRefunded,
    PurchaseRefused,
    PurchasesEvent,
    PurchaseStatus,
    PurchaseTakenBack,
    PurchaseUncounted,
    PurchaseUpdated,
    Refusal,
    Subscription,
)
from libs.purchases.encryption import AccountCipher
from libs.tally.events import LogCreated
from libs.tally.vote_commands import CastVote


@dataclass(slots=True)
class PurchaseFold:
    """Folded purchases by (account, key). `clock` (us) stamps each change and strictly increases."""

    purchases: dict[tuple[str, str], Purchase] = field(default_factory=dict)
    time_ms: int = 0
    clock: int = 0

    def evolve(self, event: PurchasesEvent, offset: int, time_ms: int) -> None:
        """Fold one event in place; `time_ms` is the broker's append time."""
        self.time_ms = max(self.time_ms, time_ms)
        if isinstance(event, LogCreated):
            return
        now = max(self.clock + 1, min(event.at, self.time_ms * 1000 + 999))
        known = self.purchases.get((event.account, event.key))
        changed = _after(known, event, offset, now)
        if changed is not None:
            self.purchases[event.account, event.key] = changed
            self.clock = now


def _after(known: Purchase | None, event: PurchaseEvent, offset: int, now: int) -> Purchase | None:
    """Return the purchase after `event` at `now` (us), or None if nothing changes."""
    match event:
        case PurchaseRecorded():
            return _recorded(known, event, offset, now)
        case PurchaseRefunded():
            return _refunded(known, event, now)
        case PurchaseUpdated():
            return _updated(known, event, now)
    if known is None or known.recorded is None or known.recorded.vote is None:
        return None
    match event:
        case PurchaseCast():
            if known.status is PurchaseStatus.RECORDED:
                return replace(known, status=PurchaseStatus.CAST, updated=now)
        case PurchaseUncounted():
            if known.status is PurchaseStatus.CAST:
                refusal = Refusal(event.code, event.reason)
                return replace(known, status=PurchaseStatus.UNCOUNTED, updated=now, refusal=refusal)
        case PurchaseCountedAgain():
            if known.status is PurchaseStatus.UNCOUNTED:
                return replace(known, status=PurchaseStatus.CAST, updated=now, refusal=None)
        case PurchaseRefused():
            # the first of a cast and a refusal holds: during a replay a cast purchase is open again for a while
            if known.status is PurchaseStatus.RECORDED:
                refusal = Refusal(event.code, event.reason)
                return replace(known, status=PurchaseStatus.REFUSED, updated=now, refusal=refusal)
        case PurchaseTakenBack():
            if known.is_open and known.status is not PurchaseStatus.RECORDED:
                return replace(known, taken_back=True)
        case _:
            assert_never(event)
    return None


def _recorded(known: Purchase | None, event: PurchaseRecorded, offset: int, now: int) -> Purchase | None:
    """Keep the first record. After a refund the votes are never cast, so there is nothing to take back."""
    if known is not None and known.recorded is not None:
        return None
    status = PurchaseStatus.RECORDED if known is None else known.status
    return Purchase(
        account=event.account,
        key=event.key,
        status=status,
        created=now,
        updated=now,
        offset=offset,
        taken_back=known is not None,
        recorded=event,
        subscription=event.subscription,
        reported_at=now if event.reported_at is None else event.reported_at,
    )


def _updated(known: Purchase | None, event: PurchaseUpdated, now: int) -> Purchase | None:
    """Replace the subscription's state, unless the known one is of the same or a later time at the platform."""
    if known is None or known.recorded is None:
        return None
    if event.reported_at is not None and event.reported_at <= known.reported_at:
        return None
    at = max(now, known.reported_at) if event.reported_at is None else event.reported_at
    subscription = event.subscription or known.subscription
    if event.expiration is not None:
        subscription = replace(subscription or Subscription(), expiration=event.expiration)
    return replace(known, subscription=subscription, reported_at=at, updated=now)


def _refunded(known: Purchase | None, event: PurchaseRefunded, now: int) -> Purchase | None:
    if known is None:
        return Purchase(
            account=event.account, key=event.key, status=PurchaseStatus.REFUNDED, created=now, updated=now
        )
    if known.status is PurchaseStatus.REFUNDED:
        return None
    return replace(known, status=PurchaseStatus.REFUNDED, updated=now)


def paid_vote(
    recorded: PurchaseRecorded, votes: PurchasedVotes, cipher: AccountCipher, contest_secret: bytes
) -> CastVote:
    """Build the purchase's vote. Its id derives from `contest_secret` and cannot be guessed without it. Raises
    `SecretLost`."""
    buyer = cipher.unseal(recorded.key, recorded.sealed)
    voter = pseudonym(contest_secret, "anonymous" if recorded.anonymous else "voter", buyer.identity)
    return CastVote(
        contest=votes.contest_key,
        voter=voter,
        anonymous=recorded.anonymous,
        vote_id=pseudonym(contest_secret, "purchase", buyer.purchase_token),
        content=content_of(voter, "c-paid", votes.participant_key, votes.count),
        source="c-paid",
        participant=votes.participant_key,
        count=votes.count,
    )
