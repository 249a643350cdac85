"""A client of the public API for Python: votes that count once, streams that come back, the service's time.

Needs httpx and nothing else of this repository. [README.md](README.md) begins with ten lines that vote.
"""

from pathlib import Path
from typing import Final

from .client import AsyncClient, Client
from .following import Update
from .outcomes import Accepted, ApiError, NoAnswer, Outcome, Problem, Refused, Undecided, VoteMembers
from .pending_votes import FileStore, MemoryStore, PendingVote, StoreFull, VoteStore

JAVASCRIPT: Final = Path(__file__).with_name("tallykeeper.js")
"""The client for browsers and node, an ES module."""

__all__ = [
    "JAVASCRIPT",
    "Accepted",
    "ApiError",
    "AsyncClient",
    "Client",
    "FileStore",
    "MemoryStore",
    "NoAnswer",
    "Outcome",
    "PendingVote",
    "Problem",
    "Refused",
    "StoreFull",
    "Undecided",
    "Update",
    "VoteMembers",
    "VoteStore",
]
