"""Computes a certificate from the log alone: approved participants, votes up to the close markers, result."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Protocol

from libs.catalogue.contests.vote_sources import SourceConfig
from libs.catalogue.errors import NotClosed
from libs.certificates.closing_lookup import Decided, find_decision
from libs.certificates.partition_leaves import LeafFold
from libs.certificates.proofs.leaves import Leaf
from libs.certificates.proofs.merkle import root_of
from libs.certificates.result import certified
from libs.contracts.certificates import (
    FORMAT,
    Certificate,
    RegisteredSource,
    Result,
    SealedPartition,
    SourceMark,
    stamped,
)
from libs.contracts.log_records import LogRecord
from libs.contracts.topics import Topic, source_log_key
from libs.results.contest_counts import Counts, counts_of
from libs.results.contest_results import results_of
from libs.tally.contest import Contest, ParticipantStatus

Batches = AsyncGenerator[Sequence[LogRecord], None]


class Log(Protocol):
    """All records from offset 0 on, read from the servers or from an export."""

    def topic_from(self, first: int) -> Topic:
        """Return the votes topic whose first partition is `first`."""
        ...

    async def size(self) -> int:
        """Return the number of records of the votes, at most."""
        ...

    def catalogue(self, account: str) -> Batches:
        """Return the records in the catalogue's partition of the account."""
        ...

    def votes(self, partition: int) -> Batches: ...


class Sealing:
    """One closing of a contest, read from the log."""

    def __init__(self, log: Log, contest: str, seq: int, decided: Decided) -> None:
        self._log = log
        self._contest = contest
        self._seq = seq
        self._decided = decided
        self._topic = log.topic_from(decided.votes_from)

    @classmethod
    async def open(cls, log: Log, account: str, contest: str, seq: int) -> "Sealing":
        """Find the closing in the log. Raises `NotClosed` if the log does not hold it."""
        async with aclosing(log.catalogue(account)) as records:
            return cls(log, contest, seq, await find_decision(records, account, contest, seq))

    async def certify(self, advance: Callable[[int], None] = lambda _: None) -> Certificate:
        """Compute the certificate; `advance` receives the number of votes' records read.

        Raises `NotClosed` if a close marker is missing.
        """
        tallies, partitions = [], []
        for partition in self._topic.numbers:
            fold = await self._fold(partition, advance)
            tallies.append(fold.sums)
            partitions.append(self._sealed(partition, fold))
        closing = self._decided.closing
        return stamped(
            Certificate(
                format=FORMAT,
                contest_key=self._contest,
                seq=self._seq,
                end=closing.end,
                decision=self._decided.at,
                sources=[_registered(*item) for item in sorted(closing.sources.items())],
                partitions=partitions,
                result=self._result(counts_of(tallies, {})),
                sha256="",
            )
        )

    async def leaves(self, partition: int) -> list[Leaf]:
        """Return the leaves of a partition. Raises `NotClosed` if a close marker is missing."""
        fold = await self._fold(partition, lambda _: None)
        return list(fold.leaves(self._decided.closing.approved))

    def _sources_in(self, partition: int) -> list[str]:
        """Return the external sources that report in a partition."""
        names, partition_of = sorted(self._decided.closing.sources), self._topic.partition_of
        return [name for name in names if partition_of(source_log_key(self._contest, name)) == partition]

    async def _fold(self, partition: int, advance: Callable[[int], None]) -> LeafFold:
        fold = LeafFold(self._contest, self._seq, self._sources_in(partition))
        async with aclosing(self._log.votes(partition)) as batches:
            async for records in batches:
                fold.take(records)
                advance(len(records))
                if fold.is_complete:
                    return fold
        raise NotClosed(
            f"Closing {self._seq} of contest {self._contest} is not final in the log: "
            f"partition {partition} ends before its marks, or the contest was reopened before them."
        )

    def _result(self, counts: Counts) -> Result:
        """Return the result of the approved participants, by the sources' registrations at the closing."""
        decided, seq = self._decided, self._seq
        approved: dict[str, ParticipantStatus] = dict.fromkeys(decided.closing.approved, "approved")
        contest = Contest(self._contest, decided.at.account, decided.at.offset, participants=approved, closed=seq)
        return certified(decided.contest_type, counts, results_of(contest, decided.closing.sources, counts))

    def _sealed(self, partition: int, fold: LeafFold) -> SealedPartition:
        assert fold.mark is not None
        hashes = [leaf.hash for leaf in fold.leaves(self._decided.closing.approved)]
        return SealedPartition(
            partition=partition,
            log_id=fold.log_id,
            mark=fold.mark,
            sources=[SourceMark(source=name, mark=mark) for name, mark in sorted(fold.source_marks.items())],
            leaves=len(hashes),
            root=root_of(hashes).hex(),
        )


def _registered(name: str, config: SourceConfig) -> RegisteredSource:
    return RegisteredSource(
        source=name,
        title=config.title,
        is_in_total=config.is_in_total,
        mode=config.mode,
        retired=config.retired,
        registered=config.registered,
        mapping=sorted(config.mapping.items()),
    )
