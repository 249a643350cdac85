"""The simulation notices when a guard is missing."""

from __future__ import annotations

import pytest
from redis import Redis

from tests.libs.views.simulation.ledger import Ledger
from tests.libs.views.simulation.lua import LuaLedger, load
from tests.libs.views.simulation.model import ModelLedger
from tests.libs.views.simulation.mutations import LUA_MUTATIONS, MODEL_MUTATIONS
from tests.libs.views.simulation.schedule import run
from tests.libs.views.simulation.world import Violation

PREFIX = "mutated_"
RARE = {"ConfigurationByAnyonesWord": [208, 1708], "ReleaseOfAnyIncarnation": [1149, 3414, 3892]}
"""Seeds for holes that one schedule in a thousand finds; `test_shortest_schedules.py` shows the way to each."""


def fails(seed: int, ledger: Ledger, *, confirms_after_ack: bool = True) -> bool:
    try:
        run(seed, ledger, confirms_after_ack)
    except Violation:
        return True
    return False


@pytest.mark.parametrize("mutation", MODEL_MUTATIONS)
def test_the_model_without_a_guard_breaks_a_promise(mutation: type[ModelLedger]) -> None:
    assert any(fails(seed, mutation()) for seed in [*RARE.get(mutation.__name__, []), *range(2_000)])


def test_without_the_gate_call_after_the_acknowledgement_a_promise_is_broken() -> None:
    assert any(fails(seed, ModelLedger(), confirms_after_ack=False) for seed in range(500))


@pytest.mark.parametrize("mutation", LUA_MUTATIONS)
def test_the_functions_without_a_guard_break_a_promise(mutation: str, valkey_address: str, namespace: str) -> None:
    with Redis.from_url(valkey_address) as redis:
        load(redis, PREFIX, LUA_MUTATIONS[mutation])
        ledger = LuaLedger(redis, namespace, PREFIX)
        try:
            assert any(fails(seed, ledger.forget()) for seed in range(400))
        finally:
            ledger.forget()
            redis.function_delete(f"{PREFIX}tally_votes")
