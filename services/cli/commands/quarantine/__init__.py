"""What could not be folded: seen, dropped, tried again."""

from services.cli.commands.quarantine.command import app

__all__ = ["app"]
