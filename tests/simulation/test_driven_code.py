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
from tests.simulation.mutations import MUTATIONS
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
RARE: Final = (
    "a deleted contest takes votes",
    "votes for whom nobody can vote stay paid",
    "votes that count again stay unpaid",
    "a purchase of a lost secret is refused",
    "a change of a newer version is passed over",
)
"""Mutations whose schedules drive what others hardly ever do."""
NOT_DRIVEN: Final[dict[str, str]] = {
    "libs.views.catalogue.catalogue_fold:CatalogueFold.{_issue,_key,_remove,_restore,_revoke}": (
        "a rule of records and keys: `test_catalogue_fold.py` compares it with a model"
    ),
    "libs.views.catalogue.catalogue_fold:CatalogueFold.{_is_parent_doomed,_meets_doomed,_remove_all}": (
        "rare: an event that meets records which are still being removed: `test_catalogue_deletion.py`"
    ),
    "libs.views.catalogue.catalogue_fold:CatalogueFold._deleted_of": "the same",
    "libs.views.catalogue.catalogue_fold:CatalogueFold._forget_outcome": (
        "after a day, or ten thousand commands: `test_catalogue_fold.py` compares it with a model"
    ),
    "libs.views.catalogue.catalogue_fold:_of": "the same",
    "libs.views.generations.computed_fold:_is_broken": "rare, by the order of calls: `test_record_generations.py`",
    "libs.views.generations.computed_fold:ComputedFold.{begin,fold_event}": "has no code",
    "libs.views.purchases.purchase_fold:_updated": "subscriptions: `test_purchases_fold.py`",
    "libs.projection.group_consumer": "the adapter of the consumer group",
    "libs.projection.partition_worker:FoldTraces.{__init__,fold,note}": "traces only",
    "services.projector.http_endpoints": "serves metrics and health checks",
    "libs.projection.projection_interface:{LiveViews.marks,Projection.fold,Projection.position}": "has no code",
    "libs.projection.projection_interface:Projection.{clean_up,witness,begin_again}": "has no code",
    "libs.projection.record_projections:RecordProjection.begin_again": "here only the votes' log loses records",
    "libs.replay.plan": "estimates only",
    "libs.replay.swap:NotReached.of": "rare: a server loses a view while it is verified, or no projector runs",
    "libs.replay.generation_fold:Replay._went_back": "rare: a server loses a view between two calls",
    "libs.replay.verification:VerificationResult.{contests,equal}": "for the printed result",
    "libs.projection.consumer:Consumer.{start,stop}": "has no code",
    "libs.projection.consumer:ConsumerSession.close": "processes are killed here",
    "libs.projection.consumer:ConsumerSession._fail": "logs that change are not simulated",
    "libs.projection.partition_worker:PartitionWorker.drained": "processes are killed here",
    "libs.projection.projector:Projector.{check,folds,lag}": "health checks and metrics",
    "libs.projection.settings:fetch_wait_ms": "for the adapter of the consumer group",
    "libs.projection.votes_projector:VotesProjector.{check,folds,lag}": "health checks and metrics",
    "libs.voting.group_commit:GroupCommit._send_traced": "traces only",
    "libs.voting.service:ReceiptSecrets.load": "has no code",
    "libs.voting.service:VotingService.refresh": "reads for voters",
    "libs.voting.service:{_metric,_refused,count}": "metrics",
    "services.projector.app:run": "opens clients of real servers",
    "services.projector.supervision:Startup.check": "health checks",
    "services.projector.supervision:Startup.end": "opens clients of real servers",
    "libs.voting.group_commit:GroupCommit.{_release,_take_back}": (
        "rare: a reservation whose caller has timed out"
    ),
    "libs.voting.protocol_driver:_recovering": "an answer to a request whose time is over",
    "services.projector.supervision:TaskSupervisor.{_check.<locals>.check,_check,checks}": "health checks",
    "services.projector.supervision:TaskSupervisor._stop": "logs that change are not simulated",
}
"""Modules, or functions as module:name; one of several in braces."""


def of_scenarios() -> Iterator[int]:
    """Yield two seeds of each scenario."""
    left = Counter(dict.fromkeys(SCENARIOS, 2))
    for seed in count():
        if left[scenario := str(some_scenario(Streams(seed)))]:
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


def functions(code: CodeType) -> Iterator[str]:
    """Yield the names of the functions and methods that a module's code defines."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType) and not inner.co_name.startswith("<"):
            if inner.co_flags & inspect.CO_OPTIMIZED and not _is_stub(inner):
                yield inner.co_qualname
            yield from functions(inner)


def _is_stub(code: CodeType) -> bool:
    """Return whether it is a method of a protocol: it has no more than a docstring."""
    return len([*code.co_names]) == 0 and len(code.co_code) <= 8  # resume, load None, return


def to_drive() -> dict[tuple[str, str], str]:
    """Return the functions that nothing excuses, as module:name, by their file and qualified name."""
    found, left = {}, {name for names in NOT_DRIVEN for name in each_of(names)}
    not_driven = frozenset(left)
    for module in modules():
        file = str(module.__file__)
        for name in functions(compile(Path(file).read_text(), file, "exec")):
            place = f"{module.__name__}:{name}"
            if excused := not_driven & {module.__name__, place}:
                left -= excused
            else:
                found[file, name] = place
    assert not left, f"these are gone: {left}"
    return found


def each_of(names: str) -> list[str]:
    head, _, several = names.removesuffix("}").partition("{")
    return [f"{head}{name}" for name in several.split(",")]


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
        run(MUTATIONS[name].seed for name in RARE)
        for share in ("PURCHASES", "REPLAYS", "SOURCES"):
            monkeypatch.setattr(world, share, 1.0)
        run(SEEDS)
    finally:
        sys.setprofile(None)
    assert not missing, "\n".join(["the simulation does not drive:", *missing.values()])
