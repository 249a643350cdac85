"""A guard that permits everything, for a service whose topics do not all exist."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

from libs.contracts.votes_log import VotesLog
from libs.deployment.settings import DeploymentSettings
from libs.deployment.votes_topics import VotesTopics


class UnguardedLog:
    """Permits a writer everything."""

    def append_refusal(self) -> None:
        return None

    def check_partitions(self, topic: str, found: int) -> None:
        return None

    def report_shortened(self, topic: str, partition: int) -> None:
        return None


class Unguarded(UnguardedLog):
    """Behaves as `DeploymentGuard` after a successful check."""

    def __init__(self, settings: DeploymentSettings) -> None:
        self.votes = VotesLog(settings.namespace, settings.partitions)
        self.topics = VotesTopics(settings, self.votes)

    def refusal(self) -> None:
        return None

    async def check(self) -> None:
        return None

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[Self]:
        """Check nothing."""
        yield self
