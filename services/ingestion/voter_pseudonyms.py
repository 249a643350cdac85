"""Maps clients' voter ids to the log's pseudonyms, and vote forms to commands."""

from uuid_utils import uuid7

from libs.contracts.pseudonyms import content_of, network_of, pseudonym
from libs.contracts.validation import Problem, ValidationFailed
from libs.tally.contest import MILLION
from libs.tally.errors import TallyError
from libs.tally.events import Rating
from libs.tally.vote_commands import CastVote
from libs.voting.contest_cache import ContestCache
from services.ingestion.vote_forms import RatingForm, VoteForm, check_vote


def new_vote_id() -> str:
    return str(uuid7())


def voter_pseudonym(secret: bytes, voter_id: str | None, anonymous_id: str | None) -> str:
    """Return the pseudonym of exactly one of the two ids; signed-in "x" and anonymous "x" differ."""
    if voter_id is not None:
        return pseudonym(secret, "voter", voter_id)
    return pseudonym(secret, "anonymous", anonymous_id or "")


async def find_voter(
    contests: ContestCache, account: str, contest: str, voter_id: str | None, anonymous_id: str | None
) -> str:
    """Return the pseudonym of the voter in the query parameters.

    Raises `ValidationFailed`, `NotFound` for the contest, and `SecretErased`.
    """
    form = {"participant_key": "p", "voter_id": voter_id, "anonymous_id": anonymous_id}
    if isinstance(check_vote(form), TallyError):
        message = "send exactly one of voter_id and anonymous_id, of 1 to 256 bytes without control characters"
        raise ValidationFailed([Problem("", message, "voter_id")])
    return voter_pseudonym(await contests.secret(account, contest), voter_id, anonymous_id)


def command(contest: str, secret: bytes, form: VoteForm, vote_id: str, forwarded: str | None) -> CastVote:
    """Build the command of a form; `forwarded` is the IP address to use if the form has none."""
    voter = voter_pseudonym(secret, form.voter_id, form.anonymous_id)
    address = form.ip or forwarded
    rating = None if form.rating is None else _rating(form.rating)
    positions = None if form.positions is None else tuple(sorted(form.positions.items()))
    return CastVote(
        contest=contest,
        voter=voter,
        anonymous=form.anonymous_id is not None,
        vote_id=vote_id,
        content=content_of(voter, form.source, form.participant_key, form.count, rating, positions),
        source=form.source,
        participant=form.participant_key,
        count=form.count,
        rating=rating,
        positions=positions,
        platform=form.platform,
        address=None if address is None else pseudonym(secret, "address", network_of(address)),
    )


def _rating(form: RatingForm) -> Rating:
    """Round to millionths."""
    subs = sorted((name, round(value * MILLION)) for name, value in form.sub_ratings.items())
    return Rating(round(form.value * MILLION), tuple(subs))
