"""Reads purchases, and the paid votes that count, directly from their logs."""

from contextlib import aclosing
from dataclasses import dataclass, field
from typing import NamedTuple

from libs.audit.log_fold import LogFold, slices
from libs.contracts.codec import Undecodable
from libs.contracts.purchase_events import Purchase, purchases_codec
from libs.contracts.topics import Log, Topic
from libs.kafka.reader import Extent, LogReader
from libs.purchases.fold import PurchaseFold
from libs.tally.events import Choices, LogCreated
from libs.tally.fold import PartitionTally
from libs.tally.voter_ledger import VoteStatus
from libs.telemetry.progress import Progress


class VoteName(NamedTuple):
    contest: str
    voter: str
    vote_id: str


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
                    if not isinstance(event, LogCreated):
                        named.add((event.account, event.key))
        self._read = ends
        return named
