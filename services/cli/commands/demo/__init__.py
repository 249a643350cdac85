"""`tally demo`: the whole service at work, for somebody who sees it for the first time."""

from services.cli.commands.demo.command import demo

__all__ = ["demo"]
