"""The simulation notices when a guard is missing, and the voting when a rule is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from redis import Redis

from libs.tally.fold import ContestTally
from libs.tally.voter_ledger import VoterLedger
from tests.libs.views.simulation.ledger import Ledger
from tests.libs.views.simulation.lua import LuaLedger, load
from tests.libs.views.simulation.model import ModelLedger
from tests.libs.views.simulation.mutations import (
    ADMISSION_MUTATIONS,
    FOLD_MUTATIONS,
    LUA_MUTATIONS,
    MODEL_MUTATIONS,
    PERIOD_MUTATIONS,
    PROTOCOL_MUTATIONS,
)
from tests.libs.views.simulation.schedule import run
from tests.libs.views.simulation.voting import Voting
from tests.libs.views.simulation.world import Violation

pytestmark = pytest.mark.slow

PREFIX = "mutated_"
RARE = {
    "ConfigurationByAnyonesWord": [144, 2212],
    "RemovedFromUnderItsReplacement": [1638],
    "ReplacesWhatIsBeingRemoved": [3087, 4257],
    "ReplacementNotComputedAnew": [11590, 22726],
    "BeginsPeriodsPastPendingVotes": [2376, 4789],
    "ClosedWhileRemovalsArePending": [16714],
    "ReleaseOfAnyIncarnation": [1198],
    "closed behind a shut gate": [784],
    "what was replaced or removed is restored": [1196, 1235],
    "an operation restores what another one voided": [3014, 3704],
    "a period begins while a vote of the last but one is pending": [20, 43],
}
"""Seeds for holes that one schedule in a thousand finds; `test_shortest_schedules.py` shows the way to each."""


def fails(seed: int, ledger: Ledger, **protocol: Any) -> bool:
    try:
        run(seed, ledger, **protocol)
    except Violation:
        return True
    return False


def seeds(mutation: str) -> list[int]:
    return [*RARE.get(mutation, []), *range(500)]


@pytest.mark.parametrize("mutation", MODEL_MUTATIONS)
def test_the_model_without_a_guard_breaks_a_promise(mutation: type[ModelLedger]) -> None:
    assert any(fails(seed, mutation()) for seed in seeds(mutation.__name__))


@pytest.mark.parametrize("mutation", PROTOCOL_MUTATIONS)
def test_the_protocol_without_a_step_breaks_a_promise(mutation: str) -> None:
    assert any(fails(seed, ModelLedger(), **PROTOCOL_MUTATIONS[mutation]) for seed in seeds(mutation))


@pytest.mark.parametrize("mutation", FOLD_MUTATIONS)
def test_the_fold_with_another_rule_for_voids_breaks_a_promise(
    mutation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, method in FOLD_MUTATIONS[mutation].items():
        monkeypatch.setattr(ContestTally, name, method)
    assert any(fails(seed, ModelLedger()) for seed in [*RARE.get(mutation, []), *range(2, 1_500, 3)])


@pytest.mark.parametrize("mutation", PERIOD_MUTATIONS)
def test_the_fold_with_another_rule_for_periods_breaks_a_promise(
    mutation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, method in PERIOD_MUTATIONS[mutation].items():
        monkeypatch.setattr(VoterLedger, name, method)
    assert any(fails(seed, ModelLedger()) for seed in range(500))


@contextmanager
def altered(valkey_address: str, namespace: str, changes: list[tuple[str, str]]) -> Iterator[LuaLedger]:
    """A ledger of functions that were changed."""
    with Redis.from_url(valkey_address) as redis:
        load(redis, PREFIX, changes)
        ledger = LuaLedger(redis, namespace, PREFIX)
        try:
            yield ledger
        finally:
            ledger.forget()
            redis.function_delete(f"{PREFIX}tally_votes")


@pytest.mark.parametrize("mutation", LUA_MUTATIONS)
def test_the_functions_without_a_guard_break_a_promise(mutation: str, valkey_address: str, namespace: str) -> None:
    with altered(valkey_address, namespace, LUA_MUTATIONS[mutation]) as ledger:
        assert any(fails(seed, ledger.forget()) for seed in range(200))


@pytest.mark.parametrize("mutation", ADMISSION_MUTATIONS)
def test_altered_functions_do_not_agree_with_the_rules(mutation: str, valkey_address: str, namespace: str) -> None:
    with altered(valkey_address, namespace, ADMISSION_MUTATIONS[mutation]) as ledger:
        assert any(disagrees(seed, ledger.forget()) for seed in [*RARE.get(mutation, []), *range(60)])


def disagrees(seed: int, ledger: LuaLedger) -> bool:
    try:
        Voting(ledger, seed).run()
    except (AssertionError, TypeError):  # altered functions may keep what cannot be read
        return True
    return False
