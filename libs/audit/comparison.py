"""Compares each partition's view with the fold of its log, one partition after the other."""

import asyncio
import time
from collections.abc import Callable, Collection

from libs.audit.balance_equations import UNKNOWN, SourceBalance, source_rows
from libs.audit.difference import Difference
from libs.audit.log_fold import LogFold, Stop, fold_past, without_gc
from libs.audit.report import ContestTotals, VerificationReport
from libs.audit.view_snapshot import Piece, read_pieces
from libs.catalogue.contests.contest_mapper import sources_of
from libs.contracts.log_records import Position
from libs.deployment.deployment import Deployment
from libs.tally.errors import ViewsUnavailable
from libs.views.ledger_scan import LedgerScan
from libs.views.vote_views import VoteViews

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
        self._pages = LedgerScan(*place, generation=generation)
        self._reader = deployment.reader
        self._progress = deployment.progress

    async def run(self, inspect: Callable[[LogFold], None], some: Collection[int] | None) -> VerificationReport:
        began = time.monotonic()
        report = VerificationReport()
        partitions = self._topic.numbers if some is None else some
        log_ids = await self._reader.log_ids(self._topic.name, partitions)
        states = await asyncio.gather(*(self._views.state(partition) for partition in partitions))
        self._progress.begin("Reading the log", sum(state.position.offset for state in states))
        contests = {} if self._contest else await self._pages.contests()
        for partition in partitions:
            held = {self._contest} if self._contest else contests.get(partition, set())
            fold, found, position = await self._partition(partition, log_ids.get(partition, ""), held)
            for difference in found:
                report.found(difference)
            report.positions[partition] = position
            report.events += fold.offset
            report.add(fold, self._contest)
            inspect(fold)
        for key, totals in report.contests.items():
            if totals.sources:
                totals.external = await self._external(key, totals)
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
            fold, found = LogFold(partition), list[Difference]()
            try:
                return fold, found, await self._fold(fold, found, log_id, set(held))
            except WentBack:
                continue
        raise ViewsUnavailable(f"The view of partition {partition} keeps going back.", retry_after_s=1)

    async def _fold(self, fold: LogFold, found: list[Difference], log_id: str, wanted: set[str]) -> Position:
        """Compare the contests in the view, then those that only the log has."""
        compared: set[str] = set()
        while True:
            pieces = await read_pieces(self._views, self._pages, fold.partition, sorted(wanted - compared))
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
