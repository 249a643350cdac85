"""The one way into the catalogue: a command is recorded, then waited for until the fold has judged it."""

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
AWAY_S: Final = 0.1
MOST: Final = 1_000
"""Commands asked for in one call; the rest wait for the next."""
MAX_RECORD_BYTES: Final = 900_000

logger = logging.getLogger(__name__)


class RecordTooLarge(TallyError):
    """Larger than one record of the log may be."""

    code = "payload_too_large"


class Log(Protocol):
    """What is needed of the log."""

    async def append(
        self,
        topic: str,
        partition: int,
        value: bytes,
        key: bytes | None = None,
        *,
        deadline_s: float | None = None,
    ) -> Appended:
        """Raises `LogUnavailable`: of the kind `unknown` when the record may be in the log all the same."""


class OutcomeReader(Protocol):
    """What is needed of the catalogue's views."""

    async def outcomes(self, partition: int, command_ids: Sequence[str]) -> list[Outcome | None]: ...


@dataclass(frozen=True, slots=True)
class Request:
    """Which request a command stands for: the same id takes effect once, whoever sends it again.

    `content` is "" where the caller named no idempotency key, and the id is of this one attempt only.
    """

    command_id: str
    content: str

    @classmethod
    def once(cls) -> "Request":
        return cls(secrets.token_hex(16), "")

    @classmethod
    def repeatable(cls, account: str, method: str, path: str, key: str, body: bytes) -> "Request":
        """By the caller's idempotency key, whose scope is account, method and path."""
        scope = "\0".join((account, method, path.rstrip("/"), key))
        return cls(hashlib.sha256(scope.encode()).hexdigest()[:40], hashlib.sha256(body).hexdigest()[:40])

    def again(self) -> "Request":
        """The same request, once this command has lost a race: whoever sends it again comes to the same one."""
        return Request(hashlib.sha256(self.command_id.encode()).hexdigest()[:40], self.content)


class Folded:
    """One poll per process for all writers that wait for the fold."""

    def __init__(self, views: OutcomeReader) -> None:
        self._views = views
        self._waiting: dict[int, dict[str, list[asyncio.Future[Outcome]]]] = {}
        self._poll: asyncio.Task[None] | None = None

    async def outcome(self, partition: int, command_id: str, deadline_s: float) -> Outcome:
        """What became of the command. Raises `TimeoutError` when the fold has not come to it in time."""
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
                await asyncio.gather(*(self._look(p, list(ids)[:MOST]) for p, ids in self._waiting.items()))
                await asyncio.sleep(POLL_S)
            except ViewsUnavailable:
                await asyncio.sleep(AWAY_S)
            except Exception:
                logger.exception("reading the outcomes of commands failed")
                await asyncio.sleep(AWAY_S)

    async def _look(self, partition: int, command_ids: list[str]) -> None:
        outcomes = await self._views.outcomes(partition, command_ids)
        for command_id, outcome in zip(command_ids, outcomes, strict=True):
            if outcome is None:
                continue
            for future in self._waiting.get(partition, {}).get(command_id, ()):
                if not future.done():
                    future.set_result(outcome)

    def _forget(self, partition: int, command_id: str) -> None:
        """Unless somebody has begun to wait for it anew since."""
        ids = self._waiting.get(partition, {})
        if not ids.get(command_id):
            ids.pop(command_id, None)
        if not ids:
            self._waiting.pop(partition, None)


class CatalogueWriter:
    """Records commands of one world. An account's commands are judged in the order of one partition."""

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
        """What a command is stamped with; the fold never lets it run ahead of the broker's clock."""
        return time.time_ns() // 1000

    async def outcome(self, account: str, command_id: str) -> Outcome | None:
        """What became of an earlier command, as far as the fold has come."""
        return (await self._views.outcomes(self._topic.partition_of(account), [command_id]))[0]

    async def record(self, command: CatalogueCommand) -> Outcome:
        """Record the command, as one of the current actor, and wait until the fold has judged it.

        Raises `LogUnavailable` when it certainly was not recorded, `ViewsUnavailable` when it was, or may have
        been, and the fold has not come to it in time: sent again under the same id it takes effect once.
        """
        if command.actor is None:
            command = replace(command, actor=CURRENT.get())
        partition = self._topic.partition_of(command.account)
        value, key = catalogue_codec.encode(command), command.account.encode()
        if len(value) + len(key) > MAX_RECORD_BYTES:
            raise RecordTooLarge(
                f"The record is too large for the log: it may have {MAX_RECORD_BYTES} bytes there."
            )
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
