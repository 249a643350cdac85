"""What could not be folded: seen, dropped, tried again."""

from services.operations.quarantine.command import app

__all__ = ["app"]
