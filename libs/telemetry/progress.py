"""Progress of long work, reported to whoever shows it."""


class Progress:
    """Told how the work goes on; this one does nothing with it."""

    def begin(self, total: int) -> None:
        """There are `total` steps, or a few more."""

    def advance(self, steps: int) -> None:
        """So many more are done."""
