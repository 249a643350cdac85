"""Appends commands to the catalogue log and waits until the fold has decided them.

All writes that depend on records are optimistic (`CommandWriter.attempts`): read, derive a command that carries
the versions read, append it; if another write came in between, the fold rejects the command, and the next attempt
follows. Only fresh views are read (`libs/views/generations/fresh_reader.py`), and none before the position of an
outcome read earlier: a repeated attempt is computed from the write that it lost against, or from a later one.
"""

import asyncio
import hashlib
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

from libs.catalogue.errors import RecordTooLarge
from libs.concurrency.tasks import SingleFlight
from libs.contracts.catalogue_events import (
    CatalogueCommand,
    Outcome,
    OutcomeKind,
    RecordsWritten,
    RecordWritten,
    Stored,
    Write,
    catalogue_codec,
)
from libs.contracts.limits import WRITTEN_TOGETHER
from libs.contracts.log_records import CURRENT
from libs.contracts.topics import Topic
from libs.kafka.reader import LogReader
from libs.kafka.writer import LogWriter
from libs.tally.errors import AppendUnknown, IdempotencyKeyReused, ViewsUnavailable
from libs.views.catalogue.catalogue_views import CatalogueViews

FOLD_DEADLINE_S: Final = 5.0
WRITE_DEADLINE_S: Final = 2 * FOLD_DEADLINE_S
MAX_RECORD_BYTES: Final = 900_000
RACES: Final = (OutcomeKind.CONFLICT, OutcomeKind.EXISTS)
"""Outcomes of commands whose records have changed since they were read."""
POLL_S: Final = 0.005
RETRY_S: Final = 0.1
MAX_COMMANDS: Final = 100
"""Maximum number of commands per call."""
MOST_UNDECIDED: Final = WRITTEN_TOGETHER.items
"""Records of an account that a process writes before the fold has decided some of them."""


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """Identity of a request: commands with the same id take effect once.

    Without an idempotency key, `content` is "" and the id is unique to this attempt.
    """

    command_id: str
    content: str

    @classmethod
    def once(cls) -> "WriteRequest":
        return cls(secrets.token_hex(16), "")

    @classmethod
    def repeatable(cls, account: str, method: str, path: str, key: str, body: bytes) -> "WriteRequest":
        """Derive the request from the caller's idempotency key, whose scope is account, method and path."""
        scope = "\0".join((account, method, path.rstrip("/"), key))
        return cls(hashlib.sha256(scope.encode()).hexdigest()[:40], hashlib.sha256(body).hexdigest()[:40])

    def again(self) -> "WriteRequest":
        """Derive the request's id for the attempt after a lost race; repeated requests derive the same id."""
        return WriteRequest(hashlib.sha256(self.command_id.encode()).hexdigest()[:40], self.content)


class CommandWriter:
    """Appends commands of one environment. One partition orders all commands of an account."""

    def __init__(
        self,
        topic: Topic,
        log: LogWriter,
        views: CatalogueViews,
        deadline_s: float = FOLD_DEADLINE_S,
    ) -> None:
        self._deadline_s = deadline_s
        self._topic = topic
        self._log = log
        self._views = views
        self._poll = OutcomePoll(views)
        self._locks: WeakValueDictionary[tuple[str, ...], asyncio.Lock] = WeakValueDictionary()
        self._turns: WeakValueDictionary[str, AccountTurns] = WeakValueDictionary()

    def now(self) -> int:
        """Return the timestamp for a command (us); the fold limits it to the broker's clock."""
        return time.time_ns() // 1000

    async def earlier(self, account: str, request: WriteRequest) -> Outcome | None:
        """Return the outcome of an earlier command with this idempotency key. Raises `IdempotencyKeyReused`."""
        if not request.content:
            return None
        partition = self._topic.partition_of(account)
        [outcome] = await self._views.outcomes(partition, [request.command_id])
        return outcome if outcome is None else _same_content(outcome, request)

    @asynccontextmanager
    async def attempts(
        self, account: str, *name: str, request: WriteRequest | None = None
    ) -> AsyncIterator["Attempts"]:
        """Provide the attempts of a write. `name` identifies the records: their writes are serialized in this
        process, to avoid repeated conflicts. Raises `ViewsUnavailable` after `WRITE_DEADLINE_S`.
        """
        lock = self._locks.setdefault((account, *name), asyncio.Lock())
        try:
            async with asyncio.timeout(WRITE_DEADLINE_S), lock:
                yield Attempts(self, account, request or WriteRequest.once())
        except TimeoutError:
            raise ViewsUnavailable("Too many concurrent writes to this record.", retry_after_s=1) from None

    async def record(self, command: CatalogueCommand) -> Outcome:
        """Append the command with the current actor, and wait until the fold has decided it.

        Raises `LogUnavailable` if it was not recorded, `ViewsUnavailable` if it was, or may have been, recorded
        and the fold has not reached it in time: a retry with the same id takes effect once.
        """
        if command.actor is None:
            command = replace(command, actor=CURRENT.get())
        partition = self._topic.partition_of(command.account)
        value, key = catalogue_codec.encode(command), command.account.encode()
        if len(value) + len(key) > MAX_RECORD_BYTES:
            raise RecordTooLarge(f"The record is too large: at most {MAX_RECORD_BYTES} bytes can be stored.")
        turns = self._turns.setdefault(command.account, AccountTurns())
        async with turns.take(_records_of(command), self._deadline_s):
            doubt = "was recorded"
            try:
                await self._log.append(self._topic.name, partition, value, key)
            except AppendUnknown:
                doubt = "may have been recorded"
            try:
                return await self._poll.outcome(partition, command.command_id, self._deadline_s)
            except TimeoutError:
                raise ViewsUnavailable(
                    f"The write {doubt}, but cannot be read yet. Send it again with the same Idempotency-Key.",
                    retry_after_s=1,
                ) from None


class Attempts:
    """The attempts of a request to write: each derives its command from records that it reads, and appends it.

    They end when the fold has decided a command of the request, whose `outcome` it then is. `is_replayed` if the
    command was not appended here, but for an earlier request with the same idempotency key.
    """

    def __init__(self, writer: CommandWriter, account: str, request: WriteRequest) -> None:
        self._writer = writer
        self._account = account
        self._request = request
        self._outcome: Outcome | None = None
        self.is_replayed = False
        self.is_first = True
        """Whether no attempt has lost a race."""

    def __aiter__(self) -> "Attempts":
        return self

    async def __anext__(self) -> dict[str, Any]:
        """Return the members of the next attempt's `Command`. Raises `IdempotencyKeyReused`."""
        while True:
            if self._outcome is None:
                self._outcome = await self._writer.earlier(self._account, self._request)
                self.is_replayed = self._outcome is not None
            if self._outcome is None:
                return self._head()
            if self._outcome.kind not in RACES:
                raise StopAsyncIteration
            self._request, self._outcome, self.is_first = self._request.again(), None, False

    async def append(self, command: CatalogueCommand) -> None:
        """Append the attempt's command. Raises `IdempotencyKeyReused`, and as `CommandWriter.record`."""
        self._outcome = _same_content(await self._writer.record(command), self._request)

    @property
    def outcome(self) -> Outcome:
        assert self._outcome is not None, "read after the last attempt"
        return self._outcome

    def _head(self) -> dict[str, Any]:
        request, at = self._request, self._writer.now()
        return {"account": self._account, "command_id": request.command_id, "at": at, "content": request.content}


class AccountTurns:
    """Lets an account's commands write `MOST_UNDECIDED` records at once; further ones wait, in their order.

    The fold decides the commands of a partition's accounts in the order of the log: an account that writes much
    waits for itself, and delays the others by these records only.
    """

    def __init__(self) -> None:
        self._next = asyncio.Lock()
        self._room = asyncio.Semaphore(MOST_UNDECIDED)

    @asynccontextmanager
    async def take(self, records: int, deadline_s: float) -> AsyncIterator[None]:
        """Hold the room of so many records. Raises `ViewsUnavailable` after `deadline_s`."""
        held = 0
        try:
            try:
                async with asyncio.timeout(deadline_s), self._next:
                    while held < records:
                        await self._room.acquire()
                        held += 1
            except TimeoutError:
                raise ViewsUnavailable("Too many concurrent writes of this account.", retry_after_s=1) from None
            yield
        finally:
            for _ in range(held):
                self._room.release()


class CommandReader:
    """Reads records as their commands wrote them, back from the log of one environment."""

    def __init__(self, topic: Topic, reader: LogReader) -> None:
        self._topic = topic
        self._reader = reader

    async def record(self, account: str, stored: Stored) -> str:
        """Return the JSON of a record as of its version. Raises `LogUnavailable`."""
        place = self._topic.partition_of(account), stored.version
        event = catalogue_codec.decode((await self._reader.record(self._topic.name, *place)).value)
        writes = event.writes if isinstance(event, RecordsWritten) else (event,)
        return next(
            write.record
            for write in writes
            if isinstance(write, RecordWritten | Write) and write.key == stored.key
        )


def _records_of(command: CatalogueCommand) -> int:
    """Return the number of records that a command writes, at most as many as an account may write at once."""
    return min(MOST_UNDECIDED, len(command.writes)) if isinstance(command, RecordsWritten) else 1


def _same_content(outcome: Outcome, request: WriteRequest) -> Outcome:
    """Return the outcome unless it is of a request with other content. Raises `IdempotencyKeyReused`."""
    if outcome.content != request.content:
        raise IdempotencyKeyReused("This Idempotency-Key was used for another request.")
    return outcome


class OutcomePoll:
    """Waits for the outcomes of one environment's commands, with one poll of each partition."""

    def __init__(self, views: CatalogueViews) -> None:
        self._views = views
        self._waiting: defaultdict[int, Counter[str]] = defaultdict(Counter)
        """Callers that wait for each command, by partition."""
        self._polls: dict[int, SingleFlight[dict[str, Outcome]]] = {}

    async def outcome(self, partition: int, command_id: str, deadline_s: float) -> Outcome:
        """Wait for the outcome of a command. Raises `TimeoutError` after `deadline_s`."""
        self._waiting[partition][command_id] += 1
        poll = self._polls.setdefault(partition, SingleFlight(partial(self._read, partition), POLL_S))
        try:
            async with asyncio.timeout(deadline_s):
                while (outcome := (await poll.next()).get(command_id)) is None:
                    pass
                return outcome
        finally:
            self._waiting[partition][command_id] -= 1

    async def _read(self, partition: int) -> dict[str, Outcome]:
        """Return the known outcomes of the waiting commands; none while the views are unavailable."""
        self._waiting[partition] = +self._waiting[partition]
        found, command_ids = dict[str, Outcome](), list(self._waiting[partition])
        try:
            for at in range(0, len(command_ids), MAX_COMMANDS):
                page = command_ids[at : at + MAX_COMMANDS]
                outcomes = zip(page, await self._views.outcomes(partition, page), strict=True)
                found |= {command_id: outcome for command_id, outcome in outcomes if outcome is not None}
        except ViewsUnavailable:
            await asyncio.sleep(RETRY_S)
        return found
