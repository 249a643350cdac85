"""Settings of property tests: numbers of examples, which the run's profile scales."""

from hypothesis import HealthCheck, settings

from tests.support.run_profile import WHOLE

PROPERTY = settings(deadline=None, suppress_health_check=list(HealthCheck))
"""For examples that call servers: of any duration, with the fixtures of the test."""


def examples(whole: int) -> int:
    """Return the number of examples of `whole` in this profile: all under `long`, a fifth otherwise."""
    return max(1, whole * settings().max_examples // WHOLE)
