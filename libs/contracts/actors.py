"""Context variable with the actor of the current request, command or process; events record it for the audit."""

from contextvars import ContextVar
from typing import Final

from libs.tally.events import Actor

CURRENT: Final[ContextVar[Actor | None]] = ContextVar("actor", default=None)
"""Set at the entry of each request or command; a new task inherits it."""
