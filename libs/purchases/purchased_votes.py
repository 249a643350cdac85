"""Builds the vote of a purchase; it is the same for every attempt, so casting is idempotent."""

from libs.contracts.pseudonyms import pseudonym
from libs.contracts.purchase_events import PurchasedVotes, PurchaseRecorded
from libs.purchases.encryption import AccountCipher
from libs.tally.vote_commands import CastVote
from libs.voting.content_hash import content_of


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
