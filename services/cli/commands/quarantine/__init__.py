"""`tally quarantine`: lists, drops and retries records that could not be processed."""

from services.cli.commands.quarantine.command import app

__all__ = ["app"]
