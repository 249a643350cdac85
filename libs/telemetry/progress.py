"""Progress reports of long operations."""


class Progress:
    """Receives progress reports; this base class ignores them."""

    def begin(self, total: int) -> None:
        """Start an operation of about `total` steps, rarely a few more."""

    def advance(self, steps: int) -> None:
        """Add `steps` completed steps."""
