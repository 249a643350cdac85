"""Reopens a closed contest: voting continues until its new end, then it closes again."""

from collections.abc import Collection
from typing import Final

from libs.catalogue.contests.closing_record import closing_of, reopened_of, votes_from
from libs.catalogue.contests.seals import is_erased, is_sealed
from libs.catalogue.errors import NotClosed
from libs.catalogue.records import RecordService
from libs.catalogue.resource_table import CONTESTS
from libs.catalogue.schemas.base import Document
from libs.concurrency.tasks import becomes_true
from libs.contracts.catalogue_events import Stored
from libs.contracts.topics import VotesLog
from libs.contracts.validation import Problem, ValidationFailed
from libs.tally.errors import ContestFinal, ViewsUnavailable
from libs.tally.time_conversion import timestamp
from libs.views.votes.reply_types import ClosingState
from libs.views.votes.vote_views import VoteViews

DEADLINE_S: Final = 5.0
POLL_S: Final = 0.02


class Reopener:
    """Reopens contests, whose votes are in `log`."""

    def __init__(self, record_service: RecordService, votes: VoteViews, log: VotesLog) -> None:
        self._record_service = record_service
        self._votes = votes
        self._log = log

    async def check(self, account: str, contest: str, end: int) -> Stored:
        """Check that the contest can be reopened and return its record. Raises `NotFound`, `ValidationFailed` for
        an `end` (us) in the past, `NotClosed`, and `ContestFinal` if it is sealed."""
        stored = await self._record_service.get(CONTESTS, account, contest)
        if any(end <= state.now for state in await self._states(stored)):
            raise ValidationFailed([Problem("/end", "must be in the future")])
        reopened(stored.document, end)
        return stored

    async def reopen(self, account: str, contest: str, end: int) -> Stored:
        """Reopen the contest until `end` (us) and return its record once every partition accepts votes again.

        Idempotent for the same end. Raises as `check`, and `ViewsUnavailable` after `DEADLINE_S`; retry then.
        """
        await self.check(account, contest, end)
        stored, _ = await self._record_service.amend(
            CONTESTS, account, contest, lambda document: reopened(document, end)
        )
        seq = reopened_of(stored.document)

        async def is_reopened() -> bool:
            return all(state.reopened >= seq for state in await self._states(stored))

        if not await becomes_true(is_reopened, DEADLINE_S, POLL_S):
            message = "The contest is reopened, but does not accept votes yet; send the request again."
            raise ViewsUnavailable(message, retry_after_s=1)
        return stored

    async def _states(self, contest: Stored) -> Collection[ClosingState]:
        numbers = self._log.topic_from(votes_from(contest.document)).numbers
        return (await self._votes.closings(numbers, contest.key)).values()


def reopened(document: Document, end: int) -> Document:
    """Reopen the document of a closed contest until `end` (us). Idempotent.

    Raises `NotClosed`, and `ContestFinal` if the contest is sealed or its secret was destroyed.
    """
    if is_erased(document):
        raise ContestFinal("The contest's secret was destroyed: it can never be reopened.")
    if is_sealed(document):
        raise ContestFinal("The contest is sealed: unseal it first (`tally unseal`).")
    config = document.get("contest_config", {}) | {"end": timestamp(end)}
    closing = closing_of(document)
    if closing is not None:
        rest = {name: value for name, value in document.items() if name != "closing"}
        return rest | {"reopened": closing.seq, "contest_config": config}
    if reopened_of(document) and document["contest_config"] == config:
        return document
    raise NotClosed("The contest is not closed: change its end instead.")
