"""Runs one schedule from its seed."""

import asyncio
import gc
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from libs.audit import comparison
from libs.catalogue import commands
from libs.contracts.catalogue_events import RecordChanged
from libs.contracts.codec import UnknownEvent
from libs.contracts.log_records import LogRecord
from libs.projection import (
    fencing,
    generation_expiry,
    projector,
    record_projections,
    view_checks,
    votes_projection,
)
from libs.projection.projection_interface import until_newer
from libs.replay import job
from libs.tally.errors import TallyError
from libs.views.valkey.function_libraries import layouts
from libs.views.votes.votes_apply_items import OFFSET, UNKNOWN, VOIDED, fold_items
from services.ingestion import voter_reads
from services.projector import closing_manager, uncounted_purchases
from tests.simulation.answers import Answer, Violation
from tests.simulation.clients import probe
from tests.simulation.faults import Streams
from tests.simulation.memory_valkey import LAYOUTS, Backend, MemoryValkey
from tests.simulation.mutate import LUA, Mutation, altered
from tests.simulation.promises import check, unsettled_views
from tests.simulation.virtual_loop import SimulatedProcess, VirtualLoop, replaced, virtual_time
from tests.simulation.world import World

MOST_SHARDS = 2
INTERVALS = (
    (fencing, "POLL_S", 0.5),
    (fencing, "CATALOGUE_WAIT_S", 1.0),
    (view_checks, "POLL_S", 1.0),
    (view_checks, "FOLDING_POLL_S", 0.1),
    (view_checks, "CHECK_S", 3.0),
    (closing_manager, "POLL_S", 1.0),
    (closing_manager, "REOPENS_AT_ONCE", 2),
    (uncounted_purchases, "REST", 1),
    (commands, "POLL_S", 0.05),
    (generation_expiry, "POLL_S", 0.5),
)
"""Intervals of polls in a simulation, longer than those of the service: most of its calls find nothing new. And
limits that few votes reach. No promise depends on them."""


async def _given(_: object, account: str, contest: str, voter: str, anonymous: None) -> str:
    """Return the voter as given: clients name voters by their pseudonyms here."""
    return voter


def _current() -> SimulatedProcess:
    loop: Any = asyncio.get_running_loop()
    process: SimulatedProcess = loop.current
    return process


def _layouts() -> str:
    """Return the layouts of the running process's version."""
    newer = _current().newer
    return layouts() + (newer if newer in LAYOUTS else "")


def _fold_items(records: Sequence[LogRecord]) -> list[Any]:
    """Convert records; a process of the former version knows no voids."""
    items = fold_items(records)
    if not _current().is_former:
        return items
    return [[UNKNOWN, item[OFFSET], 0, "VoteVoided"] if item[0] == VOIDED else item for item in items]


def _until_newer(topic: Any, partition: int, entries: Sequence[Any]) -> Any:
    """Return entries before the first of a newer version: to the former one that is a change of a participant."""
    if _current().is_former:
        entries = [(record, _as_unknown(event)) for record, event in entries]
    return until_newer(topic, partition, entries)


def _as_unknown(event: Any) -> Any:
    is_known = not (isinstance(event, RecordChanged) and event.resource == "participants")
    return event if is_known else UnknownEvent("unknown", event.type)


REPLACED: Final = (
    *INTERVALS,
    (voter_reads, "find_voter", _given),
    (projector, "layouts", _layouts),
    (votes_projection, "fold_items", _fold_items),
    (record_projections, "until_newer", _until_newer),
    (job, "without_gc", nullcontext),
    (comparison, "without_gc", nullcontext),
)

BackendFactory = Callable[[], Backend]


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a schedule: the broken promise, or None."""

    seed: int
    violation: str | None
    history: list[str]
    answers: list[Answer]
    items: list[str]

    def page(self) -> str:
        """Return who did what in which order, and the promise that broke."""
        return "\n".join([f"seed {self.seed}", *self.history, "", f"BROKEN: {self.violation}"])


class _Defects(logging.Handler):
    """Notes exceptions that the service logs, since no code expected them."""

    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__(logging.ERROR)
        self.first: str | None = None
        self._note = note

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        error = record.exc_info and record.exc_info[1]
        self._note(f"logs: {text} {error!r}")
        if isinstance(error, Exception) and not isinstance(error, TallyError):
            self.first = self.first or f"a defect was logged: {text}: {error!r}"


class Runner:
    """Runs schedules one after another, on the same backends."""

    def __init__(self, new_backend: BackendFactory | None = None, mutation: Mutation | None = None) -> None:
        self._mutation = mutation
        changes = mutation.changes if mutation is not None and mutation.where == LUA else ()
        make: Callable[[], Any] = new_backend or (lambda: MemoryValkey(changes))
        self._backends = [make() for _ in range(MOST_SHARDS)]
        _freeze_modules()

    def run(self, seed: int, without: Collection[str] = ()) -> Result:
        """Run the schedule of a seed, but for the items of its plan named in `without`."""
        enabled, level = gc.isenabled(), logging.root.manager.disable
        gc.disable()
        logging.disable(logging.WARNING)
        try:
            with altered(self._mutation), replaced(REPLACED):
                return self._run(seed, frozenset(without))
        finally:
            logging.disable(level)
            if enabled:
                gc.enable()

    def demand_promises(self, seeds: Iterable[int]) -> None:
        """Run schedules; raise `Violation` with the page of the first that breaks a promise."""
        for seed in seeds:
            result = self.run(seed)
            if result.violation is not None:
                raise Violation(result.page())

    def _run(self, seed: int, without: frozenset[str]) -> Result:
        streams = Streams(seed)
        loop = VirtualLoop(streams["order of processes"])  # type: ignore[abstract]
        with virtual_time(loop, streams["secrets"]):
            world = World(loop, streams, self._backends, without)
            violation, defects = None, _Defects(world.note)
            logging.root.addHandler(defects)
            try:
                world.begin()
                world.settle(unsettled_views)
                probe(world)
                world.settle(unsettled_views)
                check(world)
                violation = defects.first
            except Violation as broken:
                violation = f"{loop.errors[0]}" if loop.errors else str(broken)
            except Exception as error:
                violation = f"a defect: {error!r}"
            finally:
                logging.root.removeHandler(defects)
                logging.disable(logging.CRITICAL)
                loop.close()
        return Result(seed, violation, world.history, world.answers, [item.name for item in world.plan])


@cache
def _freeze_modules() -> None:
    """Have the collector look at what schedules leave behind, not again and again at all modules.

    Once in a process: what a former `Runner` has left would never be collected.
    """
    gc.collect()
    gc.freeze()


def shortest(runner: Runner, seed: int) -> Result:
    """Leave out as much of the plan of a failing schedule as possible, as long as it fails.

    Halves, quarters and so on of what is left, down to single items, are left out in turn.
    """
    found, without = runner.run(seed), frozenset[str]()
    size = (len(found.items) + 1) // 2
    while size and found.violation is not None:
        for at in range(0, len(found.items), size):
            attempt = without.union(found.items[at : at + size])
            result = runner.run(seed, attempt)
            if result.violation is not None:
                without, found = attempt, result
                break
        else:
            size //= 2
    return found
