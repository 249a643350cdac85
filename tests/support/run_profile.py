"""The length of the run: short by default, long with TALLY_TESTS_PROFILE=long."""

from typing import TypeVar

from hypothesis import settings

WHOLE = 100
"""Examples of a property without a number of its own under the profile `long`."""

T = TypeVar("T")


def is_long() -> bool:
    """Return whether the run has all examples, rounds and faults."""
    return settings().max_examples >= WHOLE


def by_profile(*, short: T, long: T) -> T:
    return long if is_long() else short
