"""Random schedules of the shipped gateways and projectors keep the promises, and each missing guard is noticed."""

import pytest

from tests.simulation.mutations import MUTATIONS, SEEDS
from tests.simulation.schedule import Runner, shortest
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


def test_a_failing_schedule_is_shortened_to_a_page() -> None:
    runner = Runner(mutation=MUTATIONS["no fence"])
    seed = next(seed for seed in range(SEARCHED) if runner.run(seed).violation)
    whole, short = runner.run(seed), shortest(runner, seed)
    assert short.violation is not None
    assert len(short.items) < len(whole.items) / 4
    page = short.page().splitlines()
    assert len(page) < 60
    assert page[-1] == f"BROKEN: {short.violation}"


def test_a_schedule_that_keeps_the_promises_is_not_shortened() -> None:
    assert shortest(Runner(), 0).violation is None
