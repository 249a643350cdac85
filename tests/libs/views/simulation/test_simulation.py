"""Seeded schedules with crashes, duplicates, zombies, frozen producers and lost writes break no promise: votes,
ratings and ballots are cast, replaced, removed and refunded, and the contest is changed, closed and reopened."""

import pytest
from redis import Redis

from tests.libs.views.simulation.lua_ledger import SMALL, SMALL_PREFIX, LuaLedger, load
from tests.libs.views.simulation.model_ledger import ModelLedger
from tests.libs.views.simulation.schedule import run
from tests.support.hypothesis_examples import examples

pytestmark = pytest.mark.slow

MODEL_SEEDS = examples(1_000)
LUA_SEEDS = examples(150)
LIMITED_SEEDS = examples(200)


@pytest.mark.parametrize("part", range(10))
def test_the_model_keeps_the_promises(part: int) -> None:
    for seed in range(part, MODEL_SEEDS, 10):
        run(seed, ModelLedger())


def test_votes_that_use_their_limits_with_the_reservation_keep_the_promises() -> None:
    for seed in range(LIMITED_SEEDS):
        run(seed, ModelLedger(), reserves_with_limits=True)


@pytest.mark.parametrize("part", range(5))
def test_the_functions_keep_the_promises(part: int, valkey_address: str, namespace: str) -> None:
    with Redis.from_url(valkey_address) as redis:
        load(redis)
        load(redis, SMALL_PREFIX, SMALL)
        ledger = LuaLedger(redis, namespace, SMALL_PREFIX if part % 2 else "")
        for seed in range(part, LUA_SEEDS, 5):
            try:
                run(seed, ledger)
            finally:
                ledger.forget()


def test_schedules_are_no_idle_talk() -> None:
    """Most votes get through, yet every kind of trouble is met in some seeds."""
    systems = [run(seed, ModelLedger()) for seed in range(240)]
    history = "\n".join(line for system in systems for line in system.history)
    assert sum(len(system.successes) for system in systems) > 200
    assert sum(len(system.removed) for system in systems) > 40
    for trouble in (
        "GateClosed()",
        "Stale",
        "joined=True",
        "Duplicate",
        "IdConflict",
        "OverLimit",
        "RefusedByCaller",
        "NotRunning",
        "NotCounted",
        "NotFolded",
        "Unknown",
        "Paid",
        "writes lost",
        "release",
        "epoch=2",
        "REPLACED",
        "ContestClosed",
        "ContestReopened",
        "VoteVoided",
        "VoteRestored",
        "VOIDED",
    ):
        assert trouble in history, trouble
    assert sum(system.ledger.state().fenced for system in systems) > 5
    assert sum(system.ledger.state().duplicates for system in systems) > 20
