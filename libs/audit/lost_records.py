"""Records that the log lost after they were acknowledged, named by the views that had folded them.

Such a view is a generation in the state `LOST`. A vote's ledger entry has its offset, so those at and after the
first lost record are exactly the votes that were lost.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Final, NamedTuple

from libs.kafka.reader import LogReader
from libs.tally.events import LogLost
from libs.views.generations.generations import Generation, Generations
from libs.views.votes.ledger_export import StoredVote, export_pages
from libs.views.votes.vote_views import VoteViews

MOST_NAMED: Final = 1_000
"""Maximum number of contests that an event names."""


class LostVote(NamedTuple):
    """A lost vote; `digest` is that of its id. `participant` is empty, and `votes` 0, of a ballot."""

    contest: str
    voter: str
    digest: bytes
    offset: int
    accepted_at: int
    source: str
    participant: str
    votes: int


async def lost_votes(views: VoteViews, partition: int, lost: Generation) -> AsyncIterator[LostVote]:
    """Yield the votes of a partition that the log lost; `views` are those of the generation that still has them.

    Raises `ViewsUnavailable`.
    """
    for contest in sorted((await views.contests()).get(partition, ())):
        for part in ("voters", "spill"):
            async for page in export_pages(views, partition, part, contest):
                for (kind, *names), fact in page.facts.items():
                    if kind == "vote" and fact.offset >= lost.first_lost:
                        yield _lost(contest, names[0], names[1], fact)


def _lost(contest: str, voter: str, digest: bytes, vote: StoredVote) -> LostVote:
    return LostVote(
        contest, voter, digest, vote.offset, vote.accepted_at, vote.source, vote.participant, vote.votes
    )


async def event_of(views: VoteViews | None, partition: int, lost: Generation) -> LogLost:
    """Return the event that tells of a loss; `views` are those of the lost generation, None of other logs.

    Raises `ViewsUnavailable`.
    """
    ids: dict[str, set[tuple[str, bytes]]] = {}
    if views is not None:
        async for vote in lost_votes(views, partition, lost):
            ids.setdefault(vote.contest, set()).add((vote.voter, vote.digest))
    counts = sorted(((contest, len(its)) for contest, its in ids.items()), key=lambda one: (-one[1], one[0]))
    named, others = counts[:MOST_NAMED], counts[MOST_NAMED:]
    return replace(told_by(lost), votes=tuple(named), unnamed=sum(votes for _, votes in others))


def told_by(lost: Generation) -> LogLost:
    """Return the event that tells of a loss, without the votes."""
    assert lost.first_lost is not None
    assert lost.position is not None
    assert lost.kept_since is not None
    return LogLost(lost.first_lost, lost.position.offset, lost.kept_since * 1_000_000)


class Loss(NamedTuple):
    """A loss of one partition's log: offsets `first` to before `end`, noticed at a time in us.

    `last_left_ms` is the append time of the last record before them (ms).
    """

    partition: int
    generation: Generation
    first: int
    end: int
    noticed_at: int
    last_left_ms: int


async def losses(reader: LogReader, generations: Generations) -> AsyncIterator[Loss]:
    """Yield the losses of a log that wait for an operator. Raises `LogUnavailable` and `ViewsUnavailable`."""
    topic = generations.topic.name
    for partition, found in (await generations.read_all()).items():
        for lost in found.lost:
            event = told_by(lost)
            left = await reader.record(topic, partition, event.first - 1)
            yield Loss(partition, lost, event.first, event.end, event.noticed_at, left.timestamp_ms)
