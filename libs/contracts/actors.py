"""Who does what is written to the catalogue's log: for the audit, never for a rule."""

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Actor:
    """By `kind`, `name` and `origin` are: of a `key` its id, of an `upload_url` the file's key, and the caller's
    address as far as it is kept; of a `command` the command, and the system's user@host; of a `process` its name
    and host.
    """

    kind: str
    name: str
    origin: str = ""


CURRENT: Final[ContextVar[Actor | None]] = ContextVar("actor", default=None)
"""Of the request or command that runs now; whoever lets it in sets it. Tasks begin with their maker's."""
