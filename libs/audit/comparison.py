"""Compares each partition's view with the fold of its log, by one process or, for a large log, by several."""

import asyncio
import multiprocessing
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Any, Final, NamedTuple

from libs.audit.ledger_facts import GROUPS, FactsGroup, label, tally_of
from libs.audit.log_fold import Difference, LogFold, Stop, fold_past, without_gc
from libs.audit.report import OUTCOMES, UNKNOWN, ContestTotals, SourceBalance, VerificationReport, source_rows
from libs.catalogue.contests.contest_mapper import sources_of
from libs.contracts.log_records import Position
from libs.contracts.topics import Topic
from libs.deployment.deployment import Deployment
from libs.deployment.settings import DeploymentAddresses
from libs.tally.counts import RatingSums, VoteSums
from libs.tally.errors import TallyError, ViewsUnavailable
from libs.tally.fold import ContestTally
from libs.views.votes.ledger_export import Fact, FactsPage, export
from libs.views.votes.reply_types import ContestCounts, PartitionState
from libs.views.votes.serialization import SOURCES
from libs.views.votes.vote_views import VoteViews


class CountPlace(NamedTuple):
    """The place of a value; `participant` and `source` are "" for the contest."""

    label: str
    participant: str = ""
    source: str = ""


EMPTY: Final[dict[str, Any]] = {"ratings": RatingSums(), "figures": {}, "figures held": {}}
"""Values of absent places by label; others are 0."""


FENCE: Final = CountPlace("fence")


def state_differences(fold: LogFold, state: PartitionState) -> Iterator[Difference]:
    """Compare the fence and the numbers of records without effect; of the fold of one contest the fence alone."""
    if fold.contest is not None:
        return _differences(fold, "", {FENCE: fold.tally.fence}, {FENCE: state.fence})
    log = {CountPlace(name): getattr(fold.tally, name) for name in ("fence", "fenced", "duplicates", "overruled")}
    log[CountPlace("quarantined")] = fold.quarantined
    return _differences(fold, "", log, {place: getattr(state, place.label) for place in log})


def counts_differences(fold: LogFold, contest: str, counts: ContestCounts) -> Iterator[Difference]:
    """Compare counts, distinct and anonymous voters by participant and source, and the contest's own row."""
    tally = tally_of(fold, contest)
    figures = dict(tally.figures)
    for participant in {participant for participant, _ in figures}:
        votes = sum(tally.figures.get((participant, source), VoteSums()).count for source in SOURCES)
        voters = tally.figures.get((participant, ""), VoteSums())
        figures[participant, ""] = VoteSums(votes, voters.unique, voters.anonymous)  # the tally has only voters
    log = _table(tally, figures, tally.last_offset, tally.last_time_ms)
    view = _table(counts, counts.figures, counts.changed, counts.updated_ms or 0)
    return _differences(fold, contest, log, view)


def _table(
    counts: ContestTally | ContestCounts, figures: Mapping[tuple[str, str], VoteSums], offset: int, time_ms: int
) -> dict[CountPlace, Any]:
    table: dict[CountPlace, Any] = {}
    for (participant, source), sums in figures.items():
        table[CountPlace("votes", participant, source)] = sums.count
        table[CountPlace("unique voters", participant, source)] = sums.unique
        table[CountPlace("anonymous voters", participant, source)] = sums.anonymous
    table |= {CountPlace(f"vote ids {name}"): counts.ids.get(status, 0) for status, name in OUTCOMES.items()}
    table |= {CountPlace("closing in force"): counts.closed, CountPlace("closing reopened last"): counts.reopened}
    table |= {CountPlace("offset of the last change"): offset, CountPlace("time of the last change (ms)"): time_ms}
    table |= {CountPlace("ratings", participant): sums for participant, sums in counts.ratings.items()}
    for source, reported in counts.sources.items():
        table[CountPlace("figures", source=source)] = reported.figures
        table[CountPlace("figures held", source=source)] = reported.held
        table[CountPlace("closing in force", source=source)] = reported.closed
        table[CountPlace("time of the last report (ms)", source=source)] = reported.updated_ms
    return table


def _differences(
    fold: LogFold, contest: str, log: Mapping[CountPlace, Any], view: Mapping[CountPlace, Any]
) -> Iterator[Difference]:
    for place in {**log, **view}:
        expected, actual = (table.get(place, EMPTY.get(place.label, 0)) for table in (log, view))
        if expected != actual:
            where = contest, place.participant, place.source
            yield Difference(fold.partition, place.label, str(expected), str(actual), *where)


class Piece(NamedTuple):
    """Part of a view at `position`; `check` compares it with the fold of the log up to there."""

    position: Position
    check: Callable[[LogFold], Iterable[Difference]]


async def read_pieces(views: VoteViews, partition: int, contests: Sequence[str]) -> list[Piece]:
    """Return the partition's state and all that its view holds about `contests`, in the order of reading."""
    state, counts = await asyncio.gather(
        views.state(partition), asyncio.gather(*(views.counts(partition, contest) for contest in contests))
    )
    pieces = [Piece(state.position, partial(state_differences, state=state))]
    of_contests: list[Piece] = []
    for contest, count in zip(contests, counts, strict=True):
        assert count is not None, "counts were read unconditionally"
        of_contests.append(Piece(count.position, partial(counts_differences, contest=contest, counts=count)))
    # read in one call, except for large external sources
    pieces += sorted(of_contests, key=lambda piece: piece.position.offset)
    for contest in contests:
        for group in GROUPS:
            pages = [page for part in group.parts for page in await export(views, partition, part, contest)]
            pieces += _facts(contest, group, pages)
    return pieces


def _facts(contest: str, group: FactsGroup, pages: list[FactsPage]) -> Iterator[Piece]:
    """Check the facts of a group: each one expected at the first page must be on one of the pages."""
    if pages[0].position == pages[-1].position:
        yield Piece(pages[0].position, partial(_facts_differences, contest=contest, group=group, pages=pages))
        return
    expected: set[int] = set()
    exported = {hash(fact) for page in pages for fact in page.facts}

    def note(fold: LogFold) -> Iterable[Difference]:
        expected.update(hash(fact) for fact, _ in group.expected(fold, contest, None))
        return ()

    def compare(fold: LogFold, page: FactsPage) -> Iterator[Difference]:
        log = dict(group.expected(fold, contest, {fact[1] for fact in page.facts}))
        for fact, value in page.facts.items():
            if log.get(fact) != value:
                yield _difference(fold, contest, fact, log.get(fact), value)

    def missing(fold: LogFold) -> Iterator[Difference]:
        lost = expected - exported
        for fact, value in group.expected(fold, contest, None) if lost else ():
            if hash(fact) in lost:
                yield _difference(fold, contest, fact, value, None)

    yield Piece(pages[0].position, note)
    for page in pages:
        yield Piece(page.position, partial(compare, page=page))
    yield Piece(pages[-1].position, missing)


def _facts_differences(
    fold: LogFold, contest: str, group: FactsGroup, pages: Sequence[FactsPage]
) -> Iterator[Difference]:
    """Compare pages of one moment: so each fact of the fold is computed once."""
    exported = {fact: value for page in pages for fact, value in page.facts.items()}
    for fact, value in group.expected(fold, contest, None):
        found = exported.pop(fact, None)
        if found != value:
            yield _difference(fold, contest, fact, value, found)
    for fact, value in exported.items():
        yield _difference(fold, contest, fact, None, value)


def _difference(fold: LogFold, contest: str, fact: Fact, log: Any, view: Any) -> Difference:
    log_text, view_text = ("nothing" if value is None else str(value) for value in (log, view))
    return Difference(fold.partition, label(fold, contest, fact), log_text, view_text, contest)


ATTEMPTS = 5
"""Attempts per partition; one is repeated if its view went back because Valkey lost its last writes."""


class WentBack(Exception):
    """The view's position is lower than it was before."""


async def compare(
    deployment: Deployment,
    contest: str | None = None,
    *,
    inspect: Callable[[LogFold], None] = lambda _: None,
    generation: int | None = None,
    partitions: Collection[int] | None = None,
) -> VerificationReport:
    """Compare the views of one contest, or of all, with an independent fold of the log.

    Compares the live views or another `generation`, in all `partitions` or some. Each piece of a view is compared
    at the position that it carries, so votes may arrive meanwhile. `inspect` receives each partition's fold before
    it is dropped. Raises `LogUnavailable`, `LogChanged` and `ViewsUnavailable`.
    """
    with without_gc():
        return await _Comparison(deployment, contest, generation).run(inspect, partitions)


class _Comparison:
    def __init__(self, deployment: Deployment, contest: str | None, generation: int | None) -> None:
        self._contest = contest
        self._topic = deployment.votes
        self._catalogue = deployment.catalogue.views
        place = deployment.valkey, deployment.namespace, deployment.votes
        self._views = VoteViews(*place, generation=generation)
        self._reader = deployment.reader
        self._progress = deployment.progress

    async def run(self, inspect: Callable[[LogFold], None], some: Collection[int] | None) -> VerificationReport:
        began = time.monotonic()
        report = VerificationReport()
        partitions = self._topic.numbers if some is None else some
        log_ids = await self._reader.log_ids(self._topic.name, partitions)
        states = await asyncio.gather(*(self._views.state(partition) for partition in partitions))
        self._progress.begin("Reading the log", sum(state.position.offset for state in states))
        contests = {} if self._contest else await self._views.contests()
        for partition in partitions:
            held = {self._contest} if self._contest else contests.get(partition, set())
            fold, found, position = await self._partition(partition, log_ids.get(partition, ""), held)
            part = VerificationReport.of(fold, self._contest, found, position)
            for key, totals in part.contests.items():
                if totals.sources:
                    totals.external = await self._external(key, totals)
            report.include(part)
            inspect(fold)
        report.seconds = time.monotonic() - began
        return report

    async def _external(self, contest: str, totals: ContestTotals) -> dict[tuple[str, str], SourceBalance]:
        """Return the rows of external sources, by the sources and mappings in the current catalogue."""
        account = await self._catalogue.find_owner("contests", contest)
        config = await self._catalogue.contest_config(account or "", contest)
        registered, participants = sources_of(config), {stored.key for stored in config.participants}
        return {
            (participant, name): row
            for name, source in totals.sources.items()
            for participant, row in source_rows(
                registered.get(name, UNKNOWN), source.reported, source.tally, participants
            ).items()
        }

    async def _partition(
        self, partition: int, log_id: str, held: Collection[str]
    ) -> tuple[LogFold, list[Difference], Position]:
        for _ in range(ATTEMPTS):
            fold, found = LogFold(partition, self._contest), list[Difference]()
            try:
                return fold, found, await self._fold(fold, found, log_id, set(held))
            except WentBack:
                continue
        raise ViewsUnavailable(f"The view of partition {partition} keeps going back.", retry_after_s=1)

    async def _fold(self, fold: LogFold, found: list[Difference], log_id: str, wanted: set[str]) -> Position:
        """Compare the contests in the view, then those that only the log has."""
        compared: set[str] = set()
        while True:
            pieces = await read_pieces(self._views, fold.partition, sorted(wanted - compared))
            position = pieces[-1].position
            if not await self._can_fold(fold, found, log_id, pieces):
                return position
            stops = [_stop(piece, found) for piece in pieces]
            await fold_past(fold, stops, self._reader, self._topic, self._progress.advance)
            compared |= wanted
            wanted = set(fold.tally.contests) if self._contest is None else set()
            if not wanted - compared:
                return position

    async def _can_fold(self, fold: LogFold, found: list[Difference], log_id: str, pieces: list[Piece]) -> bool:
        """Return whether the log holds all records that the view was folded from."""
        offsets = [fold.offset, *(piece.position.offset for piece in pieces)]
        if offsets != sorted(offsets) or len({piece.position.log_id for piece in pieces} - {""}) > 1:
            raise WentBack
        position = pieces[-1].position
        if position.log_id not in ("", log_id):
            found.append(Difference(fold.partition, "id of the log", log_id, position.log_id))
            return False
        ends = await self._reader.end_offsets(self._topic.name, [fold.partition])
        if position.offset > ends[fold.partition]:
            log = f"ends at {ends[fold.partition]}"
            found.append(Difference(fold.partition, "position", log, f"is at {position.offset}"))
            return False
        return True


def _stop(piece: Piece, found: list[Difference]) -> Stop:
    return piece.position.offset, lambda fold: found.extend(piece.check(fold))


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
