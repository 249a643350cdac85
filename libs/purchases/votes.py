"""The vote that a purchase stands for: the same one, whoever casts it and however often."""

from libs.casting.content import content_of
from libs.contracts.pseudonyms import pseudonym
from libs.contracts.purchases import PurchasedVotes
from libs.purchases.vault import Identity
from libs.tally.commands import CastVote


def paid_vote(vote: PurchasedVotes, identity: Identity, contest_secret: bytes) -> CastVote:
    """`contest_secret` is that of the vote's contest; only with it and the token can the vote id be known."""
    voter = pseudonym(contest_secret, "voter", identity.user_id)
    return CastVote(
        contest=vote.contest_key,
        voter=voter,
        anonymous=False,
        vote_id=pseudonym(contest_secret, "purchase", identity.purchase_token),
        content=content_of(voter, "c-paid", vote.participant_key, vote.count),
        source="c-paid",
        participant=vote.participant_key,
        count=vote.count,
    )
