"""Random schedules of the shipped gateways and projectors keep the promises, and each missing guard is noticed."""

import pytest

from tests.simulation.mutations import MUTATIONS, SEEDS
from tests.simulation.schedule import Runner
from tests.support.run_profile import by_profile

pytestmark = pytest.mark.slow

PARTS = 20
SCHEDULES = by_profile(short=400, long=100_000)
SEARCHED = 300
"""Seeds searched for a mutation that its own seed does not notice: any change of the schedules moves the seeds."""


@pytest.mark.parametrize("part", range(PARTS))
def test_no_promise_is_broken(part: int) -> None:
    runner = Runner()
    for seed in range(part, SCHEDULES, PARTS):
        result = runner.run(seed)
        assert result.violation is None, result.page()


@pytest.mark.parametrize("name", SEEDS)
def test_a_missing_guard_is_noticed(name: str) -> None:
    runner = Runner(mutation=MUTATIONS[name])
    assert any(runner.run(seed).violation for seed in (SEEDS[name], *range(SEARCHED)))


def test_a_seed_is_one_schedule() -> None:
    runner = Runner()
    assert runner.run(3).history == runner.run(3).history
