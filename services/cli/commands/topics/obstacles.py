"""Contests of a votes topic, and all that prevents its retirement, with the way out of each."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from libs.catalogue.contests.closing_record import closing_of, seal_of, votes_from
from libs.catalogue.resource_table import CONTESTS
from libs.certificates.store import CertificateConflict, load
from libs.contracts.catalogue_events import Stored
from libs.contracts.certificates import Certificate
from libs.contracts.topics import Topic
from libs.deployment.deployment import Deployment
from libs.kafka.reader import Extent
from libs.views.ledger_scan import LedgerScan
from libs.views.purchase_views import PurchaseViews, Unreadable
from services.cli.contest_lookup import all_contests, named
from services.cli.render import plural

GROWN_S: Final = 60.0
"""Age of the newest topic after which no process creates a contest in an older one."""
PAGE: Final = 500


class State(StrEnum):
    OPEN = "not closed"
    CLOSED = "closed, not sealed"
    SEALED = "sealed"


@dataclass(frozen=True, slots=True)
class TopicContest:
    """A contest whose votes are in the topic."""

    contest_key: str
    title: str
    account: str
    state: State


@dataclass(frozen=True, slots=True)
class Obstacle:
    problem: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Findings:
    """Contests of a topic, all obstacles to its retirement, and the certificates of its sealed contests."""

    contests: Sequence[TopicContest]
    obstacles: Sequence[Obstacle]
    certificates: Sequence[Certificate]


async def examine(deployment: Deployment, topic: Topic) -> Findings:
    """Raises `LogUnavailable`, `ViewsUnavailable` and `StorageUnavailable`."""
    obstacles = [each async for each in _of_growth(deployment, topic)]
    records = await _records(deployment, topic)
    contests = [_contest(account, stored) for account, stored in records]
    obstacles += filter(None, map(_of_state, contests))
    certificates = []
    for _, stored in records:
        found = await _certificate(deployment, stored)
        if isinstance(found, Obstacle):
            obstacles.append(found)
        elif found is not None:
            certificates.append(found)
    if not deployment.votes.is_retired(topic.first):
        obstacles += [each async for each in _of_views(deployment, topic)]
    purchases = deployment.purchases.numbers, deployment.purchase_views
    obstacles += [each async for each in find_open_purchases(*purchases, contests)]
    return Findings(contests, obstacles, certificates)


async def _of_growth(deployment: Deployment, topic: Topic) -> AsyncIterator[Obstacle]:
    newest = deployment.votes.current[-1]
    if newest == topic:
        yield Obstacle(
            f"{topic.name} is the newest topic: new contests get it",
            "`tally topics grow --partitions N --execute` creates the next one",
        )
        return
    ranges = {newest.first: Extent(0, 1)}
    async with aclosing(deployment.reader.records(deployment.votes.name, ranges)) as batches:
        [began_ms] = [records[0].timestamp_ms async for _, records in batches]
    age_s = time.time() - began_ms / 1000
    if age_s < GROWN_S:
        yield Obstacle(
            f"{newest.name} is new: not all services may create contests there yet",
            f"run this command again in {GROWN_S - age_s:.0f} s",
        )


async def _records(deployment: Deployment, topic: Topic) -> list[tuple[str, Stored]]:
    """Return the contests of the topic with their accounts: by the catalogue, and by the votes themselves."""
    found = {
        stored.key: (account, stored)
        async for account, stored in all_contests(deployment.catalogue)
        if votes_from(stored.document) == topic.first
    }
    scan = LedgerScan(deployment.valkey, deployment.namespace, deployment.votes)
    voted = [names for partition, names in (await scan.contests()).items() if partition in topic.numbers]
    for key in set().union(*voted) - found.keys():
        account = await deployment.catalogue.views.find_owner(CONTESTS.name, key)
        if account is not None:
            found[key] = await deployment.catalogue.contest_record(key)
    return [found[key] for key in sorted(found)]


def _contest(account: str, stored: Stored) -> TopicContest:
    document = stored.document
    if seal_of(document) is not None:
        state = State.SEALED
    else:
        state = State.OPEN if closing_of(document) is None else State.CLOSED
    return TopicContest(stored.key, document.get("title") or "", account, state)


def _of_state(contest: TopicContest) -> Obstacle | None:
    name, seal = named(contest.contest_key, contest.title), f"`tally seal {contest.contest_key} --execute`"
    match contest.state:
        case State.OPEN:
            return Obstacle(f"{name} is not closed", f"end or delete it, then {seal}")
        case State.CLOSED:
            return Obstacle(f"{name} is not sealed", seal)
        case State.SEALED:
            return None


async def _certificate(deployment: Deployment, stored: Stored) -> Certificate | Obstacle | None:
    """Return the certificate of a sealed contest, or why the stored one cannot be used."""
    seal = seal_of(stored.document)
    if seal is None:
        return None
    try:
        found = await load(deployment.store, stored.key, seal.seq)
    except CertificateConflict as error:
        return Obstacle(error.message, "restore it from a backup of the object store")
    if found is None or found.sha256 != seal.sha256:
        what = "is not in the object store" if found is None else "is not the one that it was sealed with"
        remedy = f"restore it, or `tally unseal {stored.key} --execute` and seal the contest again"
        return Obstacle(
            f"the certificate of {named(stored.key, stored.document.get('title') or '')} {what}", remedy
        )
    return found


async def _of_views(deployment: Deployment, topic: Topic) -> AsyncIterator[Obstacle]:
    """Yield what is still in progress in the topic's partitions."""
    states = dict(
        zip(topic.numbers, await asyncio.gather(*map(deployment.vote_views.state, topic.numbers)), strict=True)
    )
    ends = await deployment.reader.end_offsets(deployment.votes.name, topic.numbers)
    remedy = "a running projector resolves it within seconds; `tally status` shows it"
    if pending := [each for each, state in states.items() if state.pending]:
        yield Obstacle(f"votes are pending in partitions {_listed(pending)}", remedy)
    if behind := [each for each, state in states.items() if state.position.offset < ends[each]]:
        yield Obstacle(f"votes are not counted yet in partitions {_listed(behind)}", remedy)


async def find_open_purchases(
    partitions: Iterable[int], views: PurchaseViews, contests: Sequence[TopicContest]
) -> AsyncIterator[Obstacle]:
    """Yield those of these contests with purchases whose votes have to be cast or taken back."""
    titles = {each.contest_key: named(each.contest_key, each.title) for each in contests}
    counts: dict[str, int] = {}
    for partition in partitions:
        after = -1
        while page := await views.todo(partition, after, PAGE):
            after = page[-1].offset
            for each in page:
                contest = _bought(each.purchase)
                counts[contest] = counts.get(contest, 0) + 1
    remedy = "a running projector casts or refuses them; `tally status` names the reason if it cannot"
    for text in _open_purchases(titles, counts):
        yield Obstacle(text, remedy)


def _open_purchases(titles: Mapping[str, str], counts: Mapping[str, int]) -> Iterator[str]:
    for contest, count in sorted(counts.items()):
        if contest in titles:
            yield f"{plural(count, 'purchase')} for {titles[contest]} not processed yet"
        elif not contest:
            yield f"{plural(count, 'purchase')} that cannot be read: they may be for a contest of the topic"


def _bought(purchase: object) -> str:
    """Return the contest that a purchase is for; "" if it cannot be read."""
    recorded = None if isinstance(purchase, Unreadable) else getattr(purchase, "recorded", None)
    return "" if recorded is None or recorded.vote is None else str(recorded.vote.contest_key)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
