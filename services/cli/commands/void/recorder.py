"""Appends events that void or restore votes to the log, and waits until the views have folded them."""

import asyncio
from collections.abc import Sequence
from typing import Any

from libs.audit.ballots import Ballots, VoidEvent
from libs.catalogue.contests.mapper import sources_of
from libs.contracts.codec import vote_codec
from libs.contracts.topics import votes_topic
from libs.deployment.deployment import Deployment, open_log
from libs.kafka.reader import LogReader
from libs.kafka.writer import LogWriter
from libs.results.counts import Counts
from libs.results.results import results_of
from libs.results.vote_count import vote_count
from libs.tally.counts import RatingSums, VoteSums
from libs.tally.errors import LogUnavailable, ViewsUnavailable
from libs.telemetry.progress import Progress
from libs.views.functions import open_valkey
from libs.views.replies import ContestCounts
from libs.views.votes import VoteViews

AT_ONCE = 500
ATTEMPTS = 5
"""Attempts per record with an unknown outcome or an error: the fold ignores duplicates."""
FOLD_WAIT_S = 30.0
POLL_S = 0.05


async def append(stack: Deployment, events: Sequence[tuple[int, VoidEvent]], progress: Progress) -> None:
    """Append each of `events` to its partition. Raises `LogUnavailable`; some may then be appended."""
    topic = votes_topic(stack.namespace, stack.partitions).name

    async def append_one(log: LogWriter, partition: int, event: VoidEvent) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await log.append(topic, partition, vote_codec.encode(event), event.voter.encode())
            except LogUnavailable as error:
                if error.retry_after_s is None or attempt == ATTEMPTS:
                    raise
                await asyncio.sleep(error.retry_after_s)
            else:
                progress.advance(1)
                return

    progress.begin(len(events))
    async with open_log(stack) as log:
        for at in range(0, len(events), AT_ONCE):
            await asyncio.gather(*(append_one(log, *event) for event in events[at : at + AT_ONCE]))


async def read_back(stack: Deployment, ballots: Ballots, partitions: set[int]) -> dict[str, Any]:
    """Return the views' vote count record once `partitions` are folded to their current ends.

    Raises `ViewsUnavailable` after `FOLD_WAIT_S`.
    """
    topic, valkey = votes_topic(stack.namespace, stack.partitions), open_valkey(stack.valkey)
    try:
        views = VoteViews(valkey, stack.namespace)
        async with LogReader(stack.kafka_settings) as reader:
            ends = await reader.end_offsets(topic.name, partitions)
        deadline = asyncio.get_running_loop().time() + FOLD_WAIT_S
        for partition, end in ends.items():
            while (await views.state(partition)).position.offset < end:
                if asyncio.get_running_loop().time() > deadline:
                    raise ViewsUnavailable(
                        f"All events are recorded, but the views have not folded them within {FOLD_WAIT_S:.0f} s",
                        retry_after_s=1,
                    )
                await asyncio.sleep(POLL_S)
        key = ballots.contest.key
        each = await asyncio.gather(*(views.counts(partition, key) for partition in range(topic.partitions)))
    finally:
        await valkey.close()
    counts = _sum([found for found in each if found is not None])
    results = results_of(ballots.contest, sources_of(ballots.config), counts)
    return vote_count(ballots.contest, 0, counts, results, sources=False)


def _sum(partitions: Sequence[ContestCounts]) -> Counts:
    figures: dict[tuple[str, str], VoteSums] = {}
    ratings: dict[str, RatingSums] = {}
    for one in partitions:
        for key, given in one.figures.items():
            figures[key] = figures.get(key, VoteSums()) + given
        for participant, sums in one.ratings.items():
            ratings[participant] = ratings.get(participant, RatingSums()) + sums
    sources = {name: source for one in partitions for name, source in one.sources.items()}
    return Counts(figures=figures, ratings=ratings, sources=sources)
