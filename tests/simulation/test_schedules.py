"""Random schedules of the shipped gateways and projectors keep the promises, and each missing guard is noticed."""

import os
import subprocess
import sys
from datetime import date
from itertools import islice

import pytest

from tests.simulation.mutations import MUTATIONS
from tests.simulation.scenarios import seeds_like
from tests.simulation.schedule import Runner, shortest
from tests.support.run_profile import by_profile

pytestmark = pytest.mark.slow

PARTS = 10
SCHEDULES = by_profile(short=300, long=100_000)
DAYS = by_profile(short=7, long=1)
"""Each day of so many has schedules of its own; `.ci/run` runs those of all."""
SEARCHED = 60
"""Schedules of the same scenario that are searched where a mutation's own seed does not notice it any more."""


@pytest.mark.parametrize("part", range(PARTS))
def test_no_promise_is_broken(part: int) -> None:
    first = date.today().toordinal() % DAYS * SCHEDULES
    Runner().demand_promises(range(first + part, first + SCHEDULES, PARTS))


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_missing_guard_is_noticed(name: str) -> None:
    mutation = MUTATIONS[name]
    others = islice(seeds_like(mutation.seed), SEARCHED)
    runner = Runner(mutation=mutation)
    assert any(runner.run(seed).violation for seed in (mutation.seed, *others))


@pytest.mark.parametrize("part", range(4))
def test_what_notices_a_mutation_passes_without_it(part: int) -> None:
    Runner().demand_promises(sorted({mutation.seed for mutation in MUTATIONS.values()})[part::4])


def test_a_seed_is_one_schedule() -> None:
    """In any process: nothing depends on the order of a set, which is another one in each."""
    runner = Runner()
    for seed in (3, 112):
        pages = {runner.run(seed).page()}
        for hashes in "01":
            command = sys.executable, "-m", "tests.simulation", "--show", str(seed)
            shown = subprocess.run(
                command, env=os.environ | {"PYTHONHASHSEED": hashes}, capture_output=True, check=True
            )
            pages.add(shown.stdout.decode().removesuffix("\n"))
        assert len(pages) == 1


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
