"""`tally replay`: rebuilds views from the log while voting and reading continue."""

from services.cli.commands.replay.command import app
from services.cli.commands.replay.former_generations import drop, keep, rollback

__all__ = ["app"]

for command in (rollback, keep, drop):
    app.command()(command)
