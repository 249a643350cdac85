"""A guard that permits everything, for a service whose topics do not all exist."""


class Unguarded:
    """Behaves as `DeploymentGuard` after a successful check."""

    def refusal(self) -> None:
        return None

    def append_refusal(self) -> None:
        return None

    def check_partitions(self, topic: str, found: int) -> None:
        return None

    def report_shortened(self, topic: str, partition: int) -> None:
        return None

    async def check(self) -> None:
        return None
