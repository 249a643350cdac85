"""The fold of one partition of the purchases log in memory, and the votes that its purchases pay for."""

from dataclasses import dataclass, field

from libs.contracts.pseudonyms import content_of, pseudonym
from libs.contracts.purchase_events import Purchase, PurchasedVotes, PurchaseRecorded, PurchasesEvent
from libs.purchases.encryption import AccountCipher
from libs.tally.events import LogCreated, LogLost
from libs.tally.vote_commands import CastVote
from libs.views.purchases.purchase_fold import purchase_after


@dataclass(slots=True)
class PurchaseFold:
    """Folded purchases by (account, key). `clock` (us) stamps each change and strictly increases."""

    purchases: dict[tuple[str, str], Purchase] = field(default_factory=dict)
    time_ms: int = 0
    clock: int = 0

    def evolve(self, event: PurchasesEvent, offset: int, time_ms: int) -> None:
        """Fold one event in place; `time_ms` is the broker's append time."""
        self.time_ms = max(self.time_ms, time_ms)
        if isinstance(event, LogCreated | LogLost):
            return
        now = max(self.clock + 1, min(event.at, self.time_ms * 1000 + 999))
        known = self.purchases.get((event.account, event.key))
        changed = purchase_after(known, event, offset, now)
        if changed is not None:
            self.purchases[event.account, event.key] = changed
            self.clock = now


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
