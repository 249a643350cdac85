"""A guard that permits everything, for a service whose topics do not all exist."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

from libs.deployment.identity_guard import DeploymentGuard


class UnguardedLog:
    """Permits a writer everything."""

    def append_refusal(self) -> None:
        return None

    def check_partitions(self, topic: str, found: int) -> None:
        return None

    def report_shortened(self, topic: str, partition: int) -> None:
        return None


class Unguarded(UnguardedLog, DeploymentGuard):
    """Behaves as `DeploymentGuard` after a successful check."""

    def refusal(self) -> None:
        return None

    async def check(self) -> None:
        return None

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[Self]:
        """Check nothing."""
        yield self
