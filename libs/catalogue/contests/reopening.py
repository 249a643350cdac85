"""Reopening a closed contest: voting goes on until its new end, then it closes anew."""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from libs.catalogue.contests.closing import reopened, reopened_of
from libs.catalogue.record_service import RecordService
from libs.catalogue.resources import CONTESTS
from libs.contracts.catalogue import Stored
from libs.contracts.validation import Problem, ValidationFailed
from libs.tally.errors import ViewsUnavailable

DEADLINE_S: Final = 5.0
POLL_S: Final = 0.02


class State(Protocol):
    """How the closing of a contest stands in one partition of the votes."""

    @property
    def now(self) -> int: ...
    @property
    def reopened(self) -> int: ...


class Marks(Protocol):
    """What is needed of the votes' views."""

    async def closing(self, partition: int, contest: str) -> State: ...


class Reopener:
    """Reopens contests whose votes lie in `partitions` partitions."""

    def __init__(self, record_service: RecordService, votes: Marks, partitions: int) -> None:
        self._record_service = record_service
        self._votes = votes
        self._partitions = partitions

    async def check(self, account: str, contest: str, end: int) -> Stored:
        """The contest as it is. Raises `NotFound`, `ValidationFailed` for an `end` (us) that has passed,
        `NotClosed`, and `ContestFinal` while it is sealed."""
        stored = await self._record_service.get(CONTESTS, account, contest)
        if any(end <= state.now for state in await self._states(contest)):
            raise ValidationFailed([Problem("/end", "must be in the future")])
        reopened(stored.document, end)
        return stored

    async def reopen(self, account: str, contest: str, end: int) -> Stored:
        """The contest's record, running until `end` (us), once every partition takes votes again.

        Asked again for the same end it gives the same. Raises as `check` does, and `ViewsUnavailable` where that
        takes longer than `DEADLINE_S`: it may be asked again.
        """
        await self.check(account, contest, end)
        stored = await self._record_service.amend(
            CONTESTS, account, contest, lambda document: reopened(document, end)
        )
        seq = reopened_of(stored.document)
        deadline = asyncio.get_running_loop().time() + DEADLINE_S
        while any(state.reopened < seq for state in await self._states(contest)):
            if asyncio.get_running_loop().time() > deadline:
                message = "The contest is reopened, but takes no votes yet; send the request again."
                raise ViewsUnavailable(message, retry_after_s=1)
            await asyncio.sleep(POLL_S)
        return stored

    async def _states(self, contest: str) -> Sequence[State]:
        return await asyncio.gather(
            *(self._votes.closing(partition, contest) for partition in range(self._partitions))
        )
