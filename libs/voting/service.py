"""Casts and removes votes: starts the protocols, waits for their outcomes, and counts these."""

import asyncio
from collections import Counter as tallied
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Final, Protocol, get_args

from prometheus_client import Counter

from libs.catalogue.contests.contest_mapper import load_contest, load_kept_contest
from libs.contracts.log_records import CURRENT
from libs.contracts.pseudonyms import receipt
from libs.contracts.topics import Topic, VotesLog
from libs.deployment.deployment import Deployment
from libs.storage.object_store import StorageUnavailable
from libs.storage.secrets import contest_secret
from libs.tally.contest import Contest
from libs.tally.errors import AppendUnknown, TallyError
from libs.tally.events import Actor, Source
from libs.tally.reservations import Stale
from libs.tally.vote_commands import CastVote, RemoveVote
from libs.telemetry.metrics import VOTES_ACCEPTED, VOTES_DEDUPLICATED, VOTES_REFUSED, VOTES_UNKNOWN
from libs.views.catalogue.stored_records import DELETED_CONTESTS
from libs.voting.cast_reader import CastReader
from libs.voting.contest_cache import ContestCache
from libs.voting.protocol import casting, removal, shared_steps
from libs.voting.protocol.effects import Steps
from libs.voting.protocol.shared_steps import Outcome, Removed
from libs.voting.protocol_driver import Driver
from libs.voting.protocol_run import Run

_ACCEPTED: Final = {source: VOTES_ACCEPTED.labels(source) for source in get_args(Source)}


class ReceiptSecrets(Protocol):
    """The secrets that sign receipts."""

    async def load(self) -> None:
        """Load the current secrets; call it before each `at`."""

    def at(self, moment: int) -> bytes:
        """Return the secret that signs receipts of votes accepted at `moment` (microseconds since 1970 UTC)."""

    def is_first(self, moment: int) -> bool:
        """Return whether no process can have signed with another secret than the first for this time."""


@dataclass(frozen=True, slots=True)
class VotingService:
    """Casts and removes votes. After an error with status 503 the same request can be sent again."""

    log: VotesLog
    contests: ContestCache
    driver: Driver
    receipts: ReceiptSecrets

    async def cast(self, account: str, commands: Sequence[CastVote]) -> list[Outcome]:
        """Cast votes of one contest. Errors are returned, not raised.

        Those of one voter are decided and recorded in their order, since a later one may replace an earlier one.
        """
        if not commands:
            return []
        try:
            contest = await self.contests.get(account, commands[0].contest)
            topic = self.log.topic_from(contest.votes_from)
            await self.receipts.load()
        except TallyError as error:
            return [error] * len(commands)
        outcomes = _Outcomes(len(commands))
        by_voter: dict[str, list[int]] = {}
        for at, command in enumerate(commands):
            by_voter.setdefault(command.voter, []).append(at)
        for places in by_voter.values():
            self.driver.start([self._run(account, contest, topic, commands[at], outcomes, at) for at in places])
        return await outcomes.all

    async def find_receipt(self, contest: str, voter: str, vote_id: str, accepted_at: int) -> str | None:
        """Derive the receipt of an accepted vote; None if only its record tells which secret signed it."""
        await self.receipts.load()
        if not self.receipts.is_first(accepted_at):
            return None
        return receipt(self.receipts.at(accepted_at), contest, voter, vote_id)

    def _run(
        self, account: str, contest: Contest, topic: Topic, command: CastVote, outcomes: "_Outcomes", at: int
    ) -> Run:
        """Return the protocol that casts the vote whose place in the request is `at`."""
        partition = topic.partition_of(command.voter)
        steps = casting.cast_vote(command, contest, partition, _Receipts(self.receipts, command))
        return self.driver.new_run(steps, account, command, partition, partial(outcomes.set, at))

    async def remove(self, account: str, command: RemoveVote) -> Removed:
        """Remove a free vote on its voter's request. Repeatable: a vote that no longer counts is no error.

        Raises `NotFound`, `VoteRemovalNotAllowed`, `ContestNotRunning`, and errors with status 503.
        """
        contest = await self.contests.get(account, command.contest)
        partition = self.partition_of(contest, command.voter)
        steps = removal.remove_vote(command, contest, partition, _actor())
        removed: Removed = await self._result(steps, account, command, partition)
        return removed

    async def refund(self, contest: Contest, command: CastVote) -> None:
        """Remove a paid vote at any time, also in a deleted contest. An id that was never cast is used up, so no
        attempt can cast it later.

        After the contest's close the removal waits for a reopening. Raises errors with status 503.
        """
        partition = self.partition_of(contest, command.voter)
        steps = removal.remove_vote(command, None, partition, _actor())
        await self._result(steps, "", command, partition)

    async def refresh(self, account: str, contest: Contest, voter: str, stale: Stale) -> Contest:
        """Load a stale contest again, and put it in force in the voter's partition. Raises `ViewsUnavailable`."""
        partition = self.partition_of(contest, voter)
        of = RemoveVote(contest.key, voter, "")
        fresh: Contest = await self._result(shared_steps.refresh(contest, stale), account, of, partition)
        return fresh

    def partition_of(self, contest: Contest, voter: str) -> int:
        """Return the partition of a voter's votes. Raises `ViewsUnavailable` while its topic is not known."""
        return self.log.topic_from(contest.votes_from).partition_of(voter)

    async def _result(
        self, steps: Steps[Any], account: str, command: CastVote | RemoveVote, partition: int
    ) -> Any:
        """Run one protocol; raise the error that it returns."""
        outcomes = _Outcomes(1)
        self.driver.start([self.driver.new_run(steps, account, command, partition, partial(outcomes.set, 0))])
        [result] = await outcomes.all
        if isinstance(result, TallyError):
            raise result
        return result


def create_contest_cache(servers: Deployment, *, with_deleted: bool = False) -> ContestCache:
    """Create a cache of contests; `with_deleted` also of deleted ones, whose paid votes can still be refunded."""
    catalogue = servers.catalogue.views
    resources = ("contests", DELETED_CONTESTS) if with_deleted else ("contests",)

    async def load(account: str, key: str) -> Contest | None:
        return await (load_kept_contest if with_deleted else load_contest)(catalogue, account, key)

    async def load_version(account: str, key: str) -> int | None:
        for resource in resources:
            if (stored := await catalogue.get(account, resource, key)) is not None:
                return stored.version
        return None

    async def load_secret(contest: str) -> bytes:
        return await contest_secret(servers.store, contest)

    return ContestCache(load, load_version, load_secret)


async def create_voting_service(servers: Deployment) -> VotingService:
    """Build the service on the process's connections."""
    votes, contests = servers.votes, create_contest_cache(servers)
    receipts = servers.ring("receipts")
    with suppress(StorageUnavailable):  # each vote reads them again
        await receipts.load()
    addresses, read = servers.address_counters, CastReader(servers.reader, votes).read
    driver = Driver(votes, servers.vote_views, addresses, contests, servers.writer, read, servers.tracing)
    return VotingService(votes, contests, driver, receipts)


class _Outcomes:
    """Outcomes of the protocols of one request; `all` is complete with the last one, and fails by a defect."""

    __slots__ = ("_left", "_outcomes", "all")

    def __init__(self, count: int) -> None:
        self._outcomes: list[Any] = [None] * count
        self._left = count
        self.all: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()

    def set(self, at: int, outcome: Any) -> None:
        self._outcomes[at] = outcome
        self._left -= 1
        if self.all.done():
            return
        if isinstance(outcome, Exception) and not isinstance(outcome, TallyError):
            self.all.set_exception(outcome)
        elif not self._left:
            self.all.set_result(self._outcomes)


class _Receipts:
    """Receipts of one vote. Once there is a second secret, only the record tells with which one it was signed."""

    __slots__ = ("_command", "_secrets")

    def __init__(self, secrets: ReceiptSecrets, command: CastVote) -> None:
        self._secrets = secrets
        self._command = command

    def sign(self, accepted_at: int) -> str:
        command = self._command
        return receipt(self._secrets.at(accepted_at), command.contest, command.voter, command.vote_id)

    def find(self, accepted_at: int) -> str | None:
        return self.sign(accepted_at) if self._secrets.is_first(accepted_at) else None


def _actor() -> Actor | None:
    """Return the current actor without its address, which is usually a voter's."""
    actor = CURRENT.get()
    return None if actor is None else replace(actor, origin="")


def count(outcomes: Iterable[Outcome]) -> None:
    """Count outcomes, once per answered vote."""
    for metric, votes in tallied(map(_metric, outcomes)).items():
        metric.inc(votes)


def _metric(outcome: Outcome) -> Counter:
    if not isinstance(outcome, TallyError):
        return VOTES_DEDUPLICATED if outcome.replayed else _ACCEPTED[outcome.command.source]
    return VOTES_UNKNOWN if isinstance(outcome, AppendUnknown) else _refused(outcome.code)


@cache
def _refused(code: str) -> Counter:
    return VOTES_REFUSED.labels(code)
