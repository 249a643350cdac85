"""The simulation drives the code that keeps the promises; what it does not reach is named here, with reasons."""

import importlib
import inspect
import pkgutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, Final

import pytest

from tests.simulation import world
from tests.simulation.faults import Streams
from tests.simulation.mutations import CHANGES
from tests.simulation.mutations import SEEDS as NOTICING
from tests.simulation.scenarios import SCENARIOS, some_scenario
from tests.simulation.schedule import Runner

pytestmark = pytest.mark.slow

PACKAGES: Final = "libs.voting", "libs.projection", "libs.replay", "services.projector"
FOLDS: Final = (
    "libs.views.catalogue.catalogue_fold",
    "libs.views.catalogue.stored_records",
    "libs.views.generations.computed_fold",
    "libs.views.purchases.purchase_fold",
)
SEEDS: Final = range(40)
OF_RECORDS: Final = "a rule of records and keys: `test_catalogue_fold.py` compares it with a model"
NOT_DRIVEN: Final[dict[str, str]] = {
    "libs.views.catalogue.catalogue_fold:CatalogueFold._issue": OF_RECORDS,
    "libs.views.catalogue.catalogue_fold:CatalogueFold._key": OF_RECORDS,
    "libs.views.catalogue.catalogue_fold:CatalogueFold._remove": OF_RECORDS,
    "libs.views.catalogue.catalogue_fold:CatalogueFold._restore": OF_RECORDS,
    "libs.views.catalogue.catalogue_fold:CatalogueFold._revoke": OF_RECORDS,
    "libs.views.catalogue.stored_records:StoredRecords.exists": OF_RECORDS,
    "libs.views.generations.computed_fold:ComputedFold.begin": "has no code",
    "libs.views.generations.computed_fold:ComputedFold.fold_event": "has no code",
    "libs.views.purchases.purchase_fold:_updated": "subscriptions: `test_purchases_fold.py`",
    "libs.projection.group_consumer": "the adapter of the consumer group",
    "libs.projection.partition_worker:FoldTraces.__init__": "traces only",
    "libs.projection.partition_worker:FoldTraces.fold": "traces only",
    "libs.projection.partition_worker:FoldTraces.note": "traces only",
    "services.projector.http_endpoints": "serves metrics and health checks",
    "libs.projection.projection_interface:LiveViews.marks": "has no code",
    "libs.projection.projection_interface:Projection.fold": "has no code",
    "libs.projection.projection_interface:Projection.position": "has no code",
    "libs.replay.plan": "estimates only",
    "libs.replay.swap:NotReached.of": "rare: a server loses a view while it is verified, or no projector runs",
    "libs.replay.generation_fold:Replay._went_back": "rare: a server loses a view between two calls",
    "libs.replay.verification:VerificationResult.contests": "for the printed result",
    "libs.replay.verification:VerificationResult.equal": "for the printed result",
    "libs.projection.consumer:Consumer.start": "has no code",
    "libs.projection.consumer:Consumer.stop": "has no code",
    "libs.projection.consumer:ConsumerSession.close": "processes are killed here",
    "libs.projection.consumer:ConsumerSession._fail": "logs that change are not simulated",
    "libs.projection.partition_worker:PartitionWorker.drained": "processes are killed here",
    "libs.projection.projector:Projector.check": "health checks",
    "libs.projection.projector:Projector.folds": "metrics",
    "libs.projection.projector:Projector.lag": "metrics",
    "libs.projection.settings:fetch_wait_ms": "for the adapter of the consumer group",
    "libs.projection.votes_projector:VotesProjector.check": "health checks",
    "libs.projection.votes_projector:VotesProjector.folds": "metrics",
    "libs.projection.votes_projector:VotesProjector.lag": "metrics",
    "libs.voting.contest_cache:ContestCache.cached": "the way of one vote through HTTP",
    "libs.voting.protocol_driver:Driver._open_span": "traces only",
    "libs.voting.protocol_driver:Driver._traced_step": "traces only",
    "libs.voting.service:ReceiptSecrets.load": "has no code",
    "libs.voting.service:VotingService.cached": "the way of one vote through HTTP",
    "libs.voting.service:VotingService.refresh": "reads for voters",
    "libs.voting.service:_refused": "metrics",
    "libs.voting.service:count": "metrics",
    "services.projector.app:run": "opens clients of real servers",
    "services.projector.supervision:Startup.check": "health checks",
    "services.projector.supervision:Startup.end": "opens clients of real servers",
    "libs.voting.batching:ReservationBatcher._release": "rare: a reservation whose caller has timed out",
    "libs.voting.protocol_driver:_recovering": "an answer to a request whose time is over",
    "services.projector.supervision:TaskSupervisor._check.<locals>.check": "health checks",
    "services.projector.supervision:TaskSupervisor._check": "health checks",
    "services.projector.supervision:TaskSupervisor._stop": "logs that change are not simulated",
    "services.projector.supervision:TaskSupervisor.checks": "health checks",
}
"""Modules, or functions as module:name."""


def of_scenarios() -> Iterator[int]:
    """Yield two seeds of each scenario."""
    left = Counter({id(scenario): 2 for scenario in SCENARIOS.values()})
    for seed in count():
        if left[scenario := id(some_scenario(Streams(seed)))]:
            left[scenario] -= 1
            yield seed
        if not +left:
            return


def modules() -> Iterator[ModuleType]:
    for package in map(importlib.import_module, PACKAGES):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                yield importlib.import_module(found.name)
    yield from map(importlib.import_module, FOLDS)


def functions(module: ModuleType) -> dict[CodeType, str]:
    """Return the functions and methods that a module defines, by their code."""
    found: dict[CodeType, str] = {}

    def collect(code: CodeType) -> None:
        for inner in code.co_consts:
            if isinstance(inner, CodeType) and not inner.co_name.startswith("<"):
                if inner.co_flags & inspect.CO_OPTIMIZED:
                    found[inner] = inner.co_qualname
                collect(inner)

    source = Path(str(module.__file__)).read_text()
    collect(compile(source, str(module.__file__), "exec"))
    return {code: name for code, name in found.items() if not _is_stub(code)}


def _is_stub(code: CodeType) -> bool:
    """Return whether it is a method of a protocol: it has no more than a docstring."""
    return len([*code.co_names]) == 0 and len(code.co_code) <= 8  # resume, load None, return


def to_drive() -> dict[tuple[str, str], str]:
    """Return the functions that nothing excuses, as module:name, by their file and qualified name."""
    found, excused = {}, set()
    for module in modules():
        for name in functions(module).values():
            place = f"{module.__name__}:{name}"
            excuse = module.__name__ if module.__name__ in NOT_DRIVEN else place
            if excuse in NOT_DRIVEN:
                excused.add(excuse)
            else:
                found[str(module.__file__), name] = place
    gone = NOT_DRIVEN.keys() - excused
    assert not gone, f"these are gone: {gone}"
    return found


def test_each_decision_is_driven(monkeypatch: pytest.MonkeyPatch) -> None:
    """Schedules run until all is driven."""
    missing, known, runner = to_drive(), set[int](), Runner()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if id(code) not in known:
            known.add(id(code))
            missing.pop((code.co_filename, code.co_qualname), None)

    def run(seeds: Iterable[int]) -> None:
        for seed in seeds:
            if missing:
                runner.run(seed)

    sys.setprofile(note)
    try:
        run(of_scenarios())
        run(NOTICING[name] for name in CHANGES)
        for share in ("PURCHASES", "REPLAYS", "SOURCES"):
            monkeypatch.setattr(world, share, 1.0)
        run(SEEDS)
    finally:
        sys.setprofile(None)
    assert not missing, "\n".join(["the simulation does not drive:", *missing.values()])
