"""Votes that are not answered yet, stored before they are sent."""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Final, Protocol, Self
from uuid import uuid4

MOST: Final = 100_000
"""Votes in one store."""
NOT_OF_ACTION: Final = ("ip", "platform")
"""Members that may differ when a voter tries again; the service leaves them out, too."""


class StoreFull(Exception):
    """The votes were not sent, as too many others wait for their answers."""


@dataclass(frozen=True, slots=True)
class PendingVote:
    """A vote with its id: the handle to go on with. `action` identifies what the voter did."""

    contest: str
    body: Mapping[str, Any]
    action: str

    @classmethod
    def of(cls, contest: str, body: Mapping[str, Any], is_own_action: bool = False) -> Self:
        """Give a vote an id if it has none. Equal votes without one are one action, unless it `is_own_action`."""
        content = {name: value for name, value in body.items() if name not in NOT_OF_ACTION}
        with_id = {"vote_id": body.get("vote_id") or uuid4().hex, **body}
        return cls(contest, with_id, json.dumps([contest, with_id if is_own_action else content], sort_keys=True))

    @property
    def vote_id(self) -> str:
        return str(self.body["vote_id"])


class VoteStore(Protocol):
    """Keeps pending votes; an async client calls it on its event loop."""

    def add(self, votes: Sequence[PendingVote]) -> list[PendingVote]:
        """Store votes, all or none, and return what is stored: of the same action the earlier one.

        Raises `StoreFull`.
        """
        ...

    def remove(self, votes: Sequence[PendingVote]) -> None:
        """Forget votes that are answered."""
        ...

    def all(self) -> list[PendingVote]:
        """Return the stored votes, oldest first."""
        ...


class MemoryStore:
    """Pending votes of this process; they are lost with it."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._votes: dict[str, PendingVote] = {}

    def add(self, votes: Sequence[PendingVote]) -> list[PendingVote]:
        new = {vote.action for vote in votes} - self._votes.keys()
        if len(self._votes) + len(new) > self._most:
            raise StoreFull(f"{len(self._votes)} votes wait for their answers.")
        return [self._votes.setdefault(vote.action, vote) for vote in votes]

    def remove(self, votes: Sequence[PendingVote]) -> None:
        for vote in votes:
            self._votes.pop(vote.action, None)

    def all(self) -> list[PendingVote]:
        return list(self._votes.values())


TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS votes (action TEXT PRIMARY KEY, contest TEXT NOT NULL, body TEXT NOT NULL)"
)


class FileStore:
    """Pending votes in a file (SQLite), which survive the process and may be shared by threads and processes."""

    def __init__(self, path: Path | str, most: int = MOST) -> None:
        self._most = most
        self._lock = Lock()
        self._file = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._file.execute("PRAGMA synchronous = FULL")
        self._file.execute(TABLE)

    def add(self, votes: Sequence[PendingVote]) -> list[PendingVote]:
        rows = [(vote.action, vote.contest, json.dumps(dict(vote.body))) for vote in votes]
        with self._transaction():
            self._file.executemany("INSERT INTO votes VALUES (?, ?, ?) ON CONFLICT DO NOTHING", rows)
            [(count,)] = self._file.execute("SELECT COUNT(*) FROM votes")
            if count > self._most:
                raise StoreFull(f"{self._most} votes wait for their answers.")
            return [self._select("WHERE action = ?", vote.action)[0] for vote in votes]

    def remove(self, votes: Sequence[PendingVote]) -> None:
        with self._transaction():
            self._file.executemany("DELETE FROM votes WHERE action = ?", [(vote.action,) for vote in votes])

    def all(self) -> list[PendingVote]:
        with self._lock:
            return self._select("ORDER BY rowid")

    def close(self) -> None:
        self._file.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            self._file.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._file.execute("ROLLBACK")
                raise
            self._file.execute("COMMIT")

    def _select(self, which: str, *values: str) -> list[PendingVote]:
        rows = self._file.execute(f"SELECT contest, body, action FROM votes {which}", values)  # noqa: S608
        return [PendingVote(contest, json.loads(body), action) for contest, body, action in rows]
