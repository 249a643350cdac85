"""Progress reports of long operations."""


class Progress:
    """Receives progress reports; this base class ignores them. `quiet`: reports are not shown."""

    quiet = True

    def begin(self, title: str, total: int | None) -> None:
        """Start an operation of about `total` steps (None: unknown), rarely a few more; ends the one before."""

    def advance(self, steps: int) -> None:
        """Add `steps` completed steps."""

    def note(self, line: str) -> None:
        """Report an intermediate result, or a fact about the output."""
