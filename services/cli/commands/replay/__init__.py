"""`tally replay`: views folded anew from the log while voting and reading go on."""

from services.cli.commands.replay.command import app
from services.cli.commands.replay.rollback import drop, keep, rollback

__all__ = ["app"]

for undoing in (rollback, keep, drop):
    app.command()(undoing)
