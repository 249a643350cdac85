"""Appends commands to the catalogue log and waits until the fold has decided them."""

import asyncio
import hashlib
import logging
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from libs.contracts.actors import CURRENT
from libs.contracts.catalogue import CatalogueCommand, Outcome, catalogue_codec
from libs.contracts.log_records import Appended
from libs.contracts.topics import Topic
from libs.tally.errors import LogUnavailable, TallyError, ViewsUnavailable

FOLD_DEADLINE_S: Final = 5.0
POLL_S: Final = 0.005
RETRY_S: Final = 0.1
MAX_COMMANDS: Final = 1_000
"""Maximum number of commands per poll; the rest wait for the next."""
MAX_RECORD_BYTES: Final = 900_000

logger = logging.getLogger(__name__)


class RecordTooLarge(TallyError):
    """The command exceeds the maximum size of a log record."""

    code = "payload_too_large"


class Log(Protocol):
    """Appends records to the log."""

    async def append(
        self,
        topic: str,
        partition: int,
        value: bytes,
        key: bytes | None = None,
        *,
        deadline_s: float | None = None,
    ) -> Appended:
        """Append a record. Raises `LogUnavailable`; its subclass `unknown` if the record may be in the log."""


class OutcomeReader(Protocol):
    """Reads outcomes from the catalogue's views."""

    async def outcomes(self, partition: int, command_ids: Sequence[str]) -> list[Outcome | None]: ...


@dataclass(frozen=True, slots=True)
class Request:
    """Identity of a request: commands with the same id take effect once.

    Without an idempotency key, `content` is "" and the id is unique to this attempt.
    """

    command_id: str
    content: str

    @classmethod
    def once(cls) -> "Request":
        return cls(secrets.token_hex(16), "")

    @classmethod
    def repeatable(cls, account: str, method: str, path: str, key: str, body: bytes) -> "Request":
        """Derive the request from the caller's idempotency key, whose scope is account, method and path."""
        scope = "\0".join((account, method, path.rstrip("/"), key))
        return cls(hashlib.sha256(scope.encode()).hexdigest()[:40], hashlib.sha256(body).hexdigest()[:40])

    def again(self) -> "Request":
        """Derive the request's id for the attempt after a lost race; repeated requests derive the same id."""
        return Request(hashlib.sha256(self.command_id.encode()).hexdigest()[:40], self.content)


class Folded:
    """Waits for outcomes of the fold, with one poll per process for all waiting writers."""

    def __init__(self, views: OutcomeReader) -> None:
        self._views = views
        self._waiting: dict[int, dict[str, list[asyncio.Future[Outcome]]]] = {}
        self._poll: asyncio.Task[None] | None = None

    async def outcome(self, partition: int, command_id: str, deadline_s: float) -> Outcome:
        """Wait for the outcome of a command. Raises `TimeoutError` after `deadline_s`."""
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(partition, {}).setdefault(command_id, [])
        waiting.append(future)
        if self._poll is None or self._poll.done():
            self._poll = asyncio.create_task(self._run())
        try:
            async with asyncio.timeout(deadline_s):
                return await future
        finally:
            waiting.remove(future)
            if not waiting:
                self._forget(partition, command_id)

    async def _run(self) -> None:
        while self._waiting:
            try:
                await asyncio.gather(
                    *(self._read(p, list(ids)[:MAX_COMMANDS]) for p, ids in self._waiting.items())
                )
                await asyncio.sleep(POLL_S)
            except ViewsUnavailable:
                await asyncio.sleep(RETRY_S)
            except Exception:
                logger.exception("reading the outcomes of commands failed")
                await asyncio.sleep(RETRY_S)

    async def _read(self, partition: int, command_ids: list[str]) -> None:
        outcomes = await self._views.outcomes(partition, command_ids)
        for command_id, outcome in zip(command_ids, outcomes, strict=True):
            if outcome is None:
                continue
            for future in self._waiting.get(partition, {}).get(command_id, ()):
                if not future.done():
                    future.set_result(outcome)

    def _forget(self, partition: int, command_id: str) -> None:
        """Remove the command unless another caller is waiting for it."""
        ids = self._waiting.get(partition, {})
        if not ids.get(command_id):
            ids.pop(command_id, None)
        if not ids:
            self._waiting.pop(partition, None)


class CatalogueWriter:
    """Appends commands of one environment. One partition orders all commands of an account."""

    def __init__(
        self,
        topic: Topic,
        log: Log,
        views: OutcomeReader,
        unknown: type[LogUnavailable],
        deadline_s: float = FOLD_DEADLINE_S,
    ) -> None:
        self._deadline_s = deadline_s
        self._topic = topic
        self._unknown = unknown
        self._log = log
        self._views = views
        self._folded = Folded(views)

    def now(self) -> int:
        """Return the timestamp for a command (us); the fold limits it to the broker's clock."""
        return time.time_ns() // 1000

    async def outcome(self, account: str, command_id: str) -> Outcome | None:
        """Return the outcome of an earlier command, or None if it is not folded."""
        return (await self._views.outcomes(self._topic.partition_of(account), [command_id]))[0]

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
        doubt = "was recorded"
        try:
            await self._log.append(self._topic.name, partition, value, key)
        except self._unknown:
            doubt = "may have been recorded"
        try:
            return await self._folded.outcome(partition, command.command_id, self._deadline_s)
        except TimeoutError:
            raise ViewsUnavailable(
                f"The write {doubt}, but cannot be read yet. Send it again with the same Idempotency-Key.",
                retry_after_s=1,
            ) from None
