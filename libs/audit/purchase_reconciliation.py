"""Reads purchases and paid votes directly from their logs, and reconciles them."""

import time
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from libs.audit.log_fold import LogFold, slices
from libs.contracts.codec import Undecodable
from libs.contracts.purchase_events import (
    CAST,
    Purchase,
    PurchasedVotes,
    PurchaseRecorded,
    PurchaseStatus,
    purchases_codec,
)
from libs.contracts.topics import Log, Topic
from libs.contracts.vote_states import VoteName
from libs.deployment.deployment import Deployment, Progress
from libs.kafka.reader import Extent, LogReader
from libs.purchases.encryption import AccountCiphers
from libs.purchases.fold import PurchaseFold, paid_vote
from libs.storage.object_store import Store
from libs.storage.secrets import account_secret, contest_secret
from libs.tally.errors import SecretErased
from libs.tally.events import Choices, LogCreated, LogLost
from libs.tally.fold import PartitionTally
from libs.tally.voter_ledger import VoteStatus


@dataclass(frozen=True, slots=True)
class VoteOrphan:
    """Paid votes without a purchase."""

    contest: str
    voter: str
    vote_id: str
    choices: Choices


@dataclass(slots=True)
class PaidVotes:
    """Paid votes in the votes log: counted ones, those voided by an operator, and removals that wait for a
    reopening.
    """

    counted: dict[VoteName, VoteOrphan] = field(default_factory=dict)
    voided: set[VoteName] = field(default_factory=set)
    removal_waits: set[VoteName] = field(default_factory=set)

    def add(self, tally: PartitionTally) -> None:
        for contest, of_contest in tally.contests.items():
            self.removal_waits |= {VoteName(contest, *name) for name in of_contest.waiting}
            for voter, ledger in of_contest.voters.items():
                for vote_id, vote in ledger.votes.items():
                    name = VoteName(contest, voter, vote_id)
                    if vote.cast.source != "c-paid":
                        continue
                    if vote.status is VoteStatus.COUNTED:
                        self.counted[name] = VoteOrphan(*name, vote.cast.choices)
                    elif vote.status is VoteStatus.VOIDED:
                        self.voided.add(name)


async def read_paid_votes(reader: LogReader, topic: Log, progress: Progress) -> PaidVotes:
    """Read the partitions one after the other, keeping only paid votes."""
    ends = await reader.end_offsets(topic.name, topic.numbers)
    progress.begin("Reading the log", sum(ends.values()))
    paid = PaidVotes()
    for partition, end in ends.items():
        fold = LogFold(partition)
        async with aclosing(slices(reader, topic, partition, 0, end)) as pieces:
            async for records in pieces:
                fold.take(records)
                progress.advance(len(records))
        paid.add(fold.tally)
    return paid


class PurchasesLog:
    """All purchases, by account and key, as far as the log was read."""

    def __init__(self, reader: LogReader, topic: Topic) -> None:
        self.quarantined = 0
        self._reader = reader
        self._topic = topic
        self._folds = {partition: PurchaseFold() for partition in topic.numbers}
        self._read = dict.fromkeys(topic.numbers, 0)

    @property
    def purchases(self) -> dict[tuple[str, str], Purchase]:
        return {name: purchase for fold in self._folds.values() for name, purchase in fold.purchases.items()}

    async def read_on(self) -> set[tuple[str, str]]:
        """Fold the records appended since the last call, and return the purchases that they change."""
        ends = await self._reader.end_offsets(self._topic.name, self._folds)
        ranges = {partition: Extent(self._read[partition], end) for partition, end in ends.items()}
        named: set[tuple[str, str]] = set()
        async with aclosing(self._reader.records(self._topic.name, ranges)) as batches:
            async for partition, records in batches:
                events = purchases_codec.decode_many([record.value for record in records])
                for record, event in zip(records, events, strict=True):
                    if isinstance(event, Undecodable):
                        self.quarantined += 1
                        continue
                    self._folds[partition].evolve(event, record.offset, record.timestamp_ms)
                    if not isinstance(event, LogCreated | LogLost):
                        named.add((event.account, event.key))
        self._read = ends
        return named


CASTS: Final = CAST | {PurchaseStatus.RECORDED}
"""Statuses of purchases whose votes are in the log, or on their way."""


@dataclass(frozen=True, slots=True)
class PurchaseOrphan:
    """A purchase whose votes are not in the expected state."""

    account: str
    key: str
    status: PurchaseStatus
    contest: str
    participant: str
    count: int


@dataclass(slots=True)
class Reconciliation:
    """Result of the reconciliation: `uncast` were bought but not counted, `unpaid` are counted but were not
    bought, `not_taken_back` are counted although their purchase was refunded or refused.

    The others are no orphans: `waiting` purchases are so recent that their votes may still be on their way; the
    removals of `held` ones wait for a reopening of their closed contest; the votes of `voided` ones were voided by
    an operator. The votes of `erased` purchases cannot be identified any more, as their contests' secrets were
    destroyed.
    """

    purchases: int = 0
    votes: int = 0
    quarantined: int = 0
    waiting: int = 0
    held: int = 0
    erased: int = 0
    voided: int = 0
    uncast: list[PurchaseOrphan] = field(default_factory=list)
    unpaid: list[VoteOrphan] = field(default_factory=list)
    not_taken_back: list[PurchaseOrphan] = field(default_factory=list)
    titles: dict[str, str] = field(default_factory=dict)
    """Titles of the contests and their participants, by key."""

    @property
    def fits(self) -> bool:
        return not (self.uncast or self.unpaid or self.not_taken_back)


async def reconcile_logs(deployment: Deployment, waiting_s: float) -> Reconciliation:
    """Reconcile the logs; purchases that change while the votes are read count as waiting.

    Raises `LogUnavailable`, `LogChanged`, `StorageUnavailable`, and `SecretLost`.
    """
    result = Reconciliation()
    log = PurchasesLog(deployment.reader, deployment.purchases)
    await log.read_on()
    paid = await read_paid_votes(deployment.reader, deployment.votes, deployment.progress)
    moving = await log.read_on()
    purchases = log.purchases
    result.purchases, result.quarantined, result.votes = len(purchases), log.quarantined, len(paid.counted)
    names = _Names(deployment.store, {name.contest for name in paid.counted.keys() | paid.voided})
    recent = time.time_ns() // 1000 - int(waiting_s * 1_000_000)
    for purchase in purchases.values():
        if purchase.recorded is None or purchase.recorded.vote is None:
            continue
        try:
            name = await names.of(purchase.account, purchase.recorded, purchase.recorded.vote)
        except SecretErased:
            result.erased += 1
            continue
        counts = name is not None and paid.counted.pop(name, None) is not None
        voided = name in paid.voided
        if (counts or voided) == (purchase.status in CASTS):
            result.voided += voided
            continue
        orphan = _orphan(purchase, purchase.recorded.vote)
        if (purchase.account, purchase.key) in moving or (purchase.is_open and purchase.updated > recent):
            result.waiting += 1
        elif not counts and not voided:
            result.uncast.append(orphan)
        elif name in paid.removal_waits:
            result.held += 1
        else:
            result.not_taken_back.append(orphan)
    result.unpaid = [vote for name, vote in paid.counted.items() if name.contest not in names.erased]
    return result


class _Names:
    """Derives the names of purchases' votes in the log, if their contest has any paid votes there."""

    def __init__(self, store: Store, contests: set[str]) -> None:
        self._store = store
        self._contests = contests
        self._ciphers = AccountCiphers(partial(account_secret, store))
        self._secrets: dict[str, bytes] = {}
        self.erased: set[str] = set()

    async def of(self, account: str, recorded: PurchaseRecorded, votes: PurchasedVotes) -> VoteName | None:
        """Return the vote's name. Raises `SecretErased`, and adds the contest to `erased`."""
        contest = votes.contest_key
        if contest not in self._contests:
            return None
        if contest not in self._secrets:
            try:
                self._secrets[contest] = await contest_secret(self._store, contest)
            except SecretErased:
                self.erased.add(contest)
                raise
        vote = paid_vote(recorded, votes, await self._ciphers.of(account), self._secrets[contest])
        return VoteName(contest, vote.voter, vote.vote_id)


def _orphan(purchase: Purchase, votes: PurchasedVotes) -> PurchaseOrphan:
    return PurchaseOrphan(
        purchase.account, purchase.key, purchase.status, votes.contest_key, votes.participant_key, votes.count
    )
