"""The actor of the request, command or process that runs now; events that it writes name it, for the audit."""

from contextvars import ContextVar
from typing import Final

from libs.tally.events import Actor

CURRENT: Final[ContextVar[Actor | None]] = ContextVar("actor", default=None)
"""Of the request or command that runs now; whoever lets it in sets it. Tasks begin with their maker's."""
