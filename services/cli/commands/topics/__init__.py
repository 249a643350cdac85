"""`tally topics`: creates and checks the Kafka topics, adds one for new contests, and retires old ones."""

from services.cli.commands.topics.command import app
from services.cli.commands.topics.retirement import retire

__all__ = ["app"]

app.command()(retire)
