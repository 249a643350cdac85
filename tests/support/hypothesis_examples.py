"""Numbers of examples of property tests, which the run's profile scales."""

from hypothesis import settings

from tests.support.run_profile import WHOLE


def examples(whole: int) -> int:
    """Return the number of examples of `whole` in this profile: all under `long`, a fifth otherwise."""
    return max(1, whole * settings().max_examples // WHOLE)
