"""`tally replay`: views folded anew from the log while voting and reading go on."""

from services.operations.replay.command import app

__all__ = ["app"]
