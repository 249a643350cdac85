"""Comparison of views and log by several processes: the fold of a large log is bound by one processor."""

import asyncio
import multiprocessing
import os
import time
from collections.abc import Collection, Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Final

from libs.audit.comparison import compare
from libs.audit.report import VerificationReport
from libs.contracts.topics import Topic
from libs.deployment.deployment import Deployment
from libs.deployment.settings import DeploymentAddresses
from libs.tally.errors import TallyError
from libs.views.votes.vote_views import VoteViews

ALONE: Final = 200_000
"""Events that one process compares sooner than others start."""
MOST: Final = 4
"""Processes by default at most: each holds the fold of a partition."""


class ProcessKilled(TallyError):
    """A process of the comparison was killed."""


async def compare_in_parallel(
    deployment: Deployment,
    contest: str | None = None,
    *,
    generation: int | None = None,
    partitions: Collection[int] | None = None,
    processes: int | None = None,
) -> VerificationReport:
    """Compare as `compare` does, by so many processes; by default one a processor, and one for a small log.

    Raises as `compare`, and `ProcessKilled`.
    """
    began = time.monotonic()
    numbers = deployment.votes.numbers if partitions is None else partitions
    # the live views may have the layout of another version, which this one cannot read
    views = VoteViews(deployment.valkey, deployment.namespace, deployment.votes, generation=generation)
    states = await asyncio.gather(*(views.state(number) for number in numbers))
    events = sum(state.position.offset for state in states)
    workers = processes or (min(MOST, os.cpu_count() or 1) if events > ALONE else 1)
    if workers == 1:
        return await compare(deployment, contest, generation=generation, partitions=numbers)
    report, parts = VerificationReport(), list[VerificationReport]()
    deployment.progress.begin("Comparing with the log", events)
    compare_one = partial(_compare, deployment.addresses, deployment.votes.later, contest, generation)
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))
    try:
        loop = asyncio.get_running_loop()
        for part in asyncio.as_completed([loop.run_in_executor(pool, compare_one, number) for number in numbers]):
            found = await part
            parts.append(found)
            deployment.progress.advance(found.events)
    except BrokenProcessPool as killed:
        raise ProcessKilled(
            "A process of the comparison was killed, perhaps for want of memory: run it with --processes 1."
        ) from killed
    except BaseException:
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
    for found in sorted(parts, key=lambda one: min(one.positions)):
        report.include(found)
    report.seconds = time.monotonic() - began
    return report


def _compare(
    addresses: DeploymentAddresses,
    later: Iterable[Topic],
    contest: str | None,
    generation: int | None,
    partition: int,
) -> VerificationReport:
    """Compare one partition, in a process of the pool."""

    async def compare_here() -> VerificationReport:
        async with Deployment(addresses) as deployment:
            deployment.votes.add(later)
            return await compare(deployment, contest, generation=generation, partitions=[partition])

    return asyncio.run(compare_here())
