"""What the log lost is named by the view that had folded it."""

from libs.audit.lost_records import event_of, lost_votes
from libs.contracts.log_records import LogRecord
from libs.tally.events import LogLost
from libs.views.generations.generations import Generation
from libs.views.valkey.client import ValkeyClient
from tests.libs.views.generation_folds import Votes, a_votes_log, casts
from tests.support.builders.contests import a_cast, pseudonym
from tests.support.clients.vote_views import VoteViews


async def loss_of(votes: Votes, first: int) -> tuple[VoteViews, Generation]:
    stored = await votes.live.position(0)
    assert stored is not None
    assert await votes.live.begin_again(0, stored, first)
    [lost] = (await votes.generations.read(0)).lost
    return VoteViews(votes.keys.valkey, votes.namespace, 1, generation=lost.number), lost


async def test_lost_votes_are_those_at_and_after_the_first_lost_record(valkey: ValkeyClient) -> None:
    """Also those of voters with so many that some are stored apart, and of several contests; none twice."""
    many = [a_cast("a", voter="many", vote_id=f"vote {number}") for number in range(30)]
    log: list[LogRecord] = a_votes_log(*casts(10), *many, *casts(3, 10, contest="one"))
    votes = Votes(valkey, log)
    await votes.to_the_end(votes.live)
    views, lost = await loss_of(votes, 5)
    found = [vote async for vote in lost_votes(views, 0, lost)]
    assert sorted(vote.offset for vote in found) == list(range(5, 44))
    assert {vote.contest for vote in found if vote.offset > 40} == {"one"}
    assert {vote.voter for vote in found if 11 <= vote.offset <= 40} == {pseudonym("many")}
    event = await event_of(views, 0, lost)
    assert event == LogLost(5, 44, event.noticed_at, votes=(("contest", 36), ("one", 3)))


async def test_what_other_logs_lost_is_told_without_votes(valkey: ValkeyClient) -> None:
    votes = Votes(valkey, a_votes_log(*casts(10)))
    await votes.to_the_end(votes.live)
    _, lost = await loss_of(votes, 5)
    event = await event_of(None, 0, lost)
    assert event == LogLost(5, 11, event.noticed_at)
