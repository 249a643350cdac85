"""The simulation detects every missing guard, and the random voting every missing rule."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from redis import Redis

from libs.tally.fold import ContestTally
from libs.tally.voter_ledger import VoterLedger
from tests.libs.views.simulation import test_shortest_removals as removals
from tests.libs.views.simulation import test_shortest_schedules as shortest
from tests.libs.views.simulation.fold_mutations import FOLD_MUTATIONS, PERIOD_MUTATIONS
from tests.libs.views.simulation.ledger import Ledger
from tests.libs.views.simulation.lua_ledger import LuaLedger, load, unload
from tests.libs.views.simulation.model_ledger import ModelLedger
from tests.libs.views.simulation.mutations import ADMISSION_MUTATIONS, LUA_MUTATIONS, MODEL_MUTATIONS
from tests.libs.views.simulation.protocol_mutations import (
    CLOSING_MUTATIONS,
    PROTOCOL_MUTATIONS,
    RAISING_MUTATIONS,
    altered,
)
from tests.libs.views.simulation.random_voting import Voting
from tests.libs.views.simulation.schedule import run
from tests.libs.views.simulation.simulated_system import Violation

pytestmark = pytest.mark.slow

PREFIX = "mutated_"
FINDS = {
    "NoRunId": 11,
    "PendingOutlivesTheFence": 32,
    "ClockForgottenWithoutAFence": 49,
    "ConfigurationByAnyonesWord": 538,
    "ConfigurationReadTooEarly": 61,
    "ReliesOnPendingVotes": 22,
    "ReopenedBeforeTheMark": 11,
    "ClosedWhileVotesArePending": 76,
    "a change is answered before it is raised": 7,
    "closed behind a shut gate": 2274,
    "no confirmation": 26,
    "confirmed before the append": 26,
    "a lost confirmation confirms": 383,
    "a record in doubt is given up": 53,
    "what another request recorded under the id is one's own": 188,
    "accepted by the own grant where another record was folded": 668,
    "a voided vote counts as removed once in doubt": 35,
    "a removal that a fence ended is done": 31,
    "voiding frees the slot": 32,
    "a voided vote cannot be removed": 35,
    "voids at once after the close": 92,
    "the sums of the former period are merged": 56,
    "no run id": 14,
    "pending outlives the fence": 32,
    "confirm whatever the gate": 22,
    "merged sums forget whom votes count for": 19,
    "a removal does not find a merged sum": 19,
    "a period begins while a vote of the last but one is pending": 20,
    "a late mark closes what is being reopened": 59,
    "a part of a reopening admits": 16,
    "what waited takes effect out of order": 41,
}
"""Seeds of schedules that notice a missing guard. They are run first; all the others only if this one does not
notice, since any change to the schedules moves the seeds."""
SHORTEST: dict[str, Callable[[Ledger], None]] = {
    "ReleaseOfAnyIncarnation": shortest.test_a_release_under_an_old_incarnation_leaves_anothers_reservation_alone,
    "RemovedFromUnderItsReplacement": removals.test_a_vote_is_not_removed_from_under_the_one_that_replaces_it,
    "ReplacesWhatIsBeingRemoved": removals.test_a_vote_waits_for_the_removal_of_the_one_that_it_would_replace,
    "ReplacementNotComputedAnew": (
        shortest.test_a_replacement_takes_its_allowance_once_what_came_before_it_is_given_up
    ),
    "BeginsPeriodsPastPendingVotes": shortest.test_no_period_begins_while_a_vote_of_the_last_but_one_is_pending,
    "ClosedWhileRemovalsArePending": removals.test_no_contest_is_closed_while_a_removal_is_pending,
    "what was replaced or removed is restored": removals.test_what_was_removed_while_it_was_voided_is_not_restored,
    "an operation voids again and again": removals.test_a_late_copy_of_a_voiding_does_not_void_what_was_restored,
    "an operation restores what another one voided": (
        removals.test_a_late_copy_of_a_restoring_does_not_restore_what_another_operation_voided
    ),
}
"""The shortest schedules of holes that random ones hardly find."""


def breaks(mutation: str, ledger: Callable[[], ModelLedger]) -> bool:
    """Return whether the shortest known schedule, or a random one, breaks a promise without the guard."""
    if mutation not in SHORTEST:
        return any(fails(seed, ledger()) for seed in seeds(mutation))
    try:
        SHORTEST[mutation](ledger())
    except AssertionError:
        return True
    return False


def fails(seed: int, ledger: Ledger, **protocol: Any) -> bool:
    try:
        run(seed, ledger, **protocol)
    except Violation:
        return True
    return False


def seeds(mutation: str, most: int = 500) -> list[int]:
    """Return the seeds to try: the one that is known to find the hole, then all below `most`."""
    return [*([FINDS[mutation]] if mutation in FINDS else []), *range(most)]


@pytest.mark.parametrize("mutation", MODEL_MUTATIONS)
def test_the_model_without_a_guard_breaks_a_promise(mutation: type[ModelLedger]) -> None:
    assert breaks(mutation.__name__, mutation)


@pytest.mark.parametrize("mutation", CLOSING_MUTATIONS)
def test_closing_without_a_condition_breaks_a_promise(mutation: str) -> None:
    assert any(fails(seed, ModelLedger(), **CLOSING_MUTATIONS[mutation]) for seed in seeds(mutation))


@pytest.mark.parametrize("mutation", RAISING_MUTATIONS)
def test_raising_without_a_condition_breaks_a_promise(mutation: str) -> None:
    assert any(fails(seed, ModelLedger(), **RAISING_MUTATIONS[mutation]) for seed in seeds(mutation))


@pytest.mark.parametrize("mutation", PROTOCOL_MUTATIONS)
def test_the_protocol_without_a_step_breaks_a_promise(mutation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, changes = PROTOCOL_MUTATIONS[mutation]
    for name, function in altered(module, changes).items():
        monkeypatch.setattr(module, name, function)
    assert any(fails(seed, ModelLedger()) for seed in seeds(mutation))


@pytest.mark.parametrize("mutation", FOLD_MUTATIONS)
def test_the_fold_with_another_rule_for_voids_breaks_a_promise(
    mutation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, method in FOLD_MUTATIONS[mutation].items():
        monkeypatch.setattr(ContestTally, name, method)
    assert breaks(mutation, ModelLedger)


@pytest.mark.parametrize("mutation", PERIOD_MUTATIONS)
def test_the_fold_with_another_rule_for_periods_breaks_a_promise(
    mutation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, method in PERIOD_MUTATIONS[mutation].items():
        monkeypatch.setattr(VoterLedger, name, method)
    assert any(fails(seed, ModelLedger()) for seed in seeds(mutation))


@contextmanager
def altered_functions(valkey_address: str, namespace: str, changes: list[tuple[str, str]]) -> Iterator[LuaLedger]:
    """A ledger of functions that were changed."""
    with Redis.from_url(valkey_address) as redis:
        load(redis, PREFIX, changes)
        ledger = LuaLedger(redis, namespace, PREFIX)
        try:
            yield ledger
        finally:
            ledger.forget()
            unload(redis, PREFIX)


@pytest.mark.parametrize("mutation", LUA_MUTATIONS)
def test_the_functions_without_a_guard_break_a_promise(mutation: str, valkey_address: str, namespace: str) -> None:
    with altered_functions(valkey_address, namespace, LUA_MUTATIONS[mutation]) as ledger:
        assert any(fails(seed, ledger.forget()) for seed in seeds(mutation, 200))


@pytest.mark.parametrize("mutation", ADMISSION_MUTATIONS)
def test_altered_functions_do_not_agree_with_the_rules(mutation: str, valkey_address: str, namespace: str) -> None:
    with altered_functions(valkey_address, namespace, ADMISSION_MUTATIONS[mutation]) as ledger:
        assert any(disagrees(seed, ledger.forget()) for seed in seeds(mutation, 60))


def disagrees(seed: int, ledger: LuaLedger) -> bool:
    try:
        Voting(ledger, seed).run()
    except (AssertionError, TypeError):  # altered functions may keep what cannot be read
        return True
    return False
