"""Numbers of examples of property tests, which the Hypothesis profile scales."""

from __future__ import annotations

from hypothesis import settings

WHOLE = 100
"""Examples of a property without a number of its own under the profile `long`."""


def is_long() -> bool:
    """Says that the profile runs all examples."""
    return settings().max_examples >= WHOLE


def examples(whole: int) -> int:
    """As many of `whole` as the profile runs: all under `long`, a fifth otherwise."""
    return max(1, whole * settings().max_examples // WHOLE)
