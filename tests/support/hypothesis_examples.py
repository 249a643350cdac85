"""Numbers of examples of property tests, which the Hypothesis profile scales."""

from hypothesis import settings

WHOLE = 100
"""Examples of a property without a number of its own under the profile `long`."""


def is_long() -> bool:
    """Return whether the profile runs all examples."""
    return settings().max_examples >= WHOLE


def examples(whole: int) -> int:
    """Return the number of examples of `whole` in this profile: all under `long`, a fifth otherwise."""
    return max(1, whole * settings().max_examples // WHOLE)
