"""Purchases and paid votes against one another, both straight from the log."""

import time
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, NamedTuple

from libs.contracts.codec import Undecodable
from libs.contracts.purchases import Purchase, PurchaseStatus, purchases_codec
from libs.contracts.topics import Topic, purchases_topic, votes_topic
from libs.kafka.log import Extent, LogReader
from libs.purchases.fold import PurchaseFold
from libs.purchases.vault import Vaults
from libs.purchases.votes import paid_vote
from libs.storage.secrets import account_secret, contest_secret
from libs.storage.store import Store, open_store
from libs.tally.events import Choices
from libs.tally.standing import VoteStatus
from libs.tally.tallies import PartitionTally
from services.operations.connect import Stack
from services.operations.progress import Progress
from services.operations.verification.fold import LogFold, slices


class VoteName(NamedTuple):
    contest: str
    voter: str
    vote_id: str


@dataclass(frozen=True, slots=True)
class PurchaseOrphan:
    """A purchase whose votes are not as they should be."""

    account: str
    key: str
    status: PurchaseStatus
    contest: str
    participant: str
    count: int


@dataclass(frozen=True, slots=True)
class VoteOrphan:
    """Paid votes that no purchase stands for."""

    contest: str
    voter: str
    vote_id: str
    choices: Choices


@dataclass(slots=True)
class Reconciliation:
    """`uncast` were bought and are not counted, `unpaid` are counted and were not bought, `not_taken_back` count
    although their purchase was refunded or refused.

    `waiting` purchases came so lately that they may still be on their way; the removals of `held` ones wait,
    behind the contest's close, for a reopening. Neither is an orphan.
    """

    purchases: int = 0
    votes: int = 0
    quarantined: int = 0
    waiting: int = 0
    held: int = 0
    uncast: list[PurchaseOrphan] = field(default_factory=list)
    unpaid: list[VoteOrphan] = field(default_factory=list)
    not_taken_back: list[PurchaseOrphan] = field(default_factory=list)

    @property
    def fits(self) -> bool:
        return not (self.uncast or self.unpaid or self.not_taken_back)

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"fits": self.fits}


@dataclass(slots=True)
class PaidVotes:
    """What the votes log says of paid votes: those that count, and the removals that wait for a reopening."""

    counted: dict[VoteName, VoteOrphan] = field(default_factory=dict)
    removal_waits: set[VoteName] = field(default_factory=set)

    def add(self, tally: PartitionTally) -> None:
        for contest, of_contest in tally.contests.items():
            self.removal_waits |= {VoteName(contest, *name) for name in of_contest.waiting}
            for voter, standing in of_contest.voters.items():
                for vote_id, vote in standing.votes.items():
                    if vote.cast.source == "c-paid" and vote.status is VoteStatus.COUNTED:
                        name = VoteName(contest, voter, vote_id)
                        self.counted[name] = VoteOrphan(*name, vote.cast.choices)


async def reconcile_logs(stack: Stack, waiting_s: float, progress: Progress) -> Reconciliation:
    """Raises `LogUnavailable`, `LogChanged`, `StorageUnavailable`, and `SecretLost`.

    Purchases are read before votes, so that all votes of purchases that were cast by then are there.
    """
    result = Reconciliation()
    async with LogReader(stack.kafka_settings) as reader:
        purchases = await _read_purchases(reader, purchases_topic(stack.namespace, stack.partitions), result)
        paid = await _read_votes(reader, votes_topic(stack.namespace, stack.partitions), progress)
    result.votes = len(paid.counted)
    names = _Names(open_store(stack.storage_url), {name.contest for name in paid.counted})
    now = time.time_ns() // 1000
    for purchase in purchases:
        await _compare(purchase, paid, names, now - int(waiting_s * 1_000_000), result)
    result.unpaid = list(paid.counted.values())
    return result


async def _compare(
    purchase: Purchase, paid: PaidVotes, names: "_Names", recent: int, result: Reconciliation
) -> None:
    """Note what is wrong with one purchase, and strike its votes off `paid`."""
    name = await names.of(purchase)
    counts = name is not None and paid.counted.pop(name, None) is not None
    if counts == (purchase.status in (PurchaseStatus.RECORDED, PurchaseStatus.CAST)):
        return
    if purchase.is_open and purchase.updated > recent:
        result.waiting += 1
    elif not counts:
        result.uncast.append(_orphan(purchase))
    elif name in paid.removal_waits:
        result.held += 1
    else:
        result.not_taken_back.append(_orphan(purchase))


class _Names:
    """The names of purchases' votes in the log, as far as their contests have any paid votes there."""

    def __init__(self, store: Store, contests: set[str]) -> None:
        self._store = store
        self._contests = contests
        self._vaults = Vaults(partial(account_secret, store))
        self._secrets: dict[str, bytes] = {}

    async def of(self, purchase: Purchase) -> VoteName | None:
        assert purchase.recorded is not None
        assert purchase.recorded.vote is not None
        contest = purchase.recorded.vote.contest_key
        if contest not in self._contests:
            return None
        if contest not in self._secrets:
            self._secrets[contest] = await contest_secret(self._store, contest)
        vault = await self._vaults.of(purchase.account)
        identity = vault.unseal(purchase.key, purchase.recorded.sealed)
        vote = paid_vote(purchase.recorded.vote, identity, self._secrets[contest])
        return VoteName(contest, vote.voter, vote.vote_id)


def _orphan(purchase: Purchase) -> PurchaseOrphan:
    assert purchase.recorded is not None
    assert purchase.recorded.vote is not None
    vote = purchase.recorded.vote
    return PurchaseOrphan(
        purchase.account, purchase.key, purchase.status, vote.contest_key, vote.participant_key, vote.count
    )


async def _read_purchases(reader: LogReader, topic: Topic, result: Reconciliation) -> Iterator[Purchase]:
    """Those of votes."""
    ends = await reader.end_offsets(topic.name, range(topic.partitions))
    folds = {partition: PurchaseFold() for partition in ends}
    ranges = {partition: Extent(0, end) for partition, end in ends.items()}
    async with aclosing(reader.records(topic.name, ranges)) as batches:
        async for partition, records in batches:
            events = purchases_codec.decode_many([record.value for record in records])
            for record, event in zip(records, events, strict=True):
                if isinstance(event, Undecodable):
                    result.quarantined += 1
                else:
                    folds[partition].evolve(event, record.offset, record.timestamp_ms)
    result.purchases = sum(len(fold.purchases) for fold in folds.values())
    bought = (purchase for fold in folds.values() for purchase in fold.purchases.values())
    return (one for one in bought if one.recorded is not None and one.recorded.vote is not None)


async def _read_votes(reader: LogReader, topic: Topic, progress: Progress) -> PaidVotes:
    """One partition after the other, each forgotten but for its paid votes."""
    ends = await reader.end_offsets(topic.name, range(topic.partitions))
    progress.begin(sum(ends.values()))
    paid = PaidVotes()
    for partition, end in ends.items():
        fold = LogFold(partition)
        async with aclosing(slices(reader, topic, partition, 0, end)) as pieces:
            async for records in pieces:
                fold.take(records)
                progress.advance(len(records))
        paid.add(fold.tally)
    return paid
