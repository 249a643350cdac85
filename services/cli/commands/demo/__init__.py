"""`tally demo`: runs the whole service with simulated voters, for newcomers."""

from services.cli.commands.demo.command import demo

__all__ = ["demo"]
