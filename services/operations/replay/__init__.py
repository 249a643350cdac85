"""`tally replay`: views folded anew from the log while voting and reading go on."""

from services.operations.replay.command import app
from services.operations.replay.undoing import drop, keep, rollback

__all__ = ["app"]

for undoing in (rollback, keep, drop):
    app.command()(undoing)
