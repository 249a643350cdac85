"""Appends events that void or restore votes to the log, and waits until the views have folded them."""

import asyncio
from collections.abc import Sequence
from typing import Any

from libs.audit.recount import Ballots, VoidEvent
from libs.catalogue.contests.contest_mapper import sources_of
from libs.contracts.codec import vote_codec
from libs.deployment.deployment import Deployment
from libs.results.contest_counts import counts_by_partition, sum_of
from libs.results.contest_results import results_of, vote_count
from libs.tally.errors import LogUnavailable, ViewsUnavailable

AT_ONCE = 500
ATTEMPTS = 5
"""Attempts per record with an unknown outcome or an error: the fold ignores duplicates."""
FOLD_WAIT_S = 30.0
POLL_S = 0.05


async def append(deployment: Deployment, events: Sequence[tuple[int, VoidEvent]]) -> None:
    """Append each of `events` to its partition. Raises `LogUnavailable`; some may then be appended."""
    log = await deployment.log()

    async def append_one(partition: int, event: VoidEvent) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await log.append(deployment.votes.name, partition, vote_codec.encode(event), event.voter.encode())
            except LogUnavailable as error:
                if error.retry_after_s is None or attempt == ATTEMPTS:
                    raise
                await asyncio.sleep(error.retry_after_s)
            else:
                deployment.progress.advance(1)
                return

    deployment.progress.begin("Recording", len(events))
    for at in range(0, len(events), AT_ONCE):
        await asyncio.gather(*(append_one(*event) for event in events[at : at + AT_ONCE]))


async def read_back(deployment: Deployment, ballots: Ballots, partitions: set[int]) -> dict[str, Any]:
    """Return the views' vote count record once `partitions` are folded to their current ends.

    Raises `ViewsUnavailable` after `FOLD_WAIT_S`.
    """
    topic, views = deployment.votes, deployment.vote_views
    ends = await deployment.reader.end_offsets(topic.name, partitions)
    deadline = asyncio.get_running_loop().time() + FOLD_WAIT_S
    for partition, end in ends.items():
        while (await views.state(partition)).position.offset < end:
            if asyncio.get_running_loop().time() > deadline:
                raise ViewsUnavailable(
                    f"All events are recorded, but were not processed within {FOLD_WAIT_S:.0f} s",
                    retry_after_s=1,
                )
            await asyncio.sleep(POLL_S)
    counts = sum_of(await counts_by_partition(views, topic, ballots.contest))
    results = results_of(ballots.contest, sources_of(ballots.config), counts)
    return vote_count(ballots.contest, 0, counts, results, sources=False)
