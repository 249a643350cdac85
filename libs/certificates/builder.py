"""Computes a certificate from the log alone: approved participants, votes up to the close markers, result."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from hashlib import sha256
from operator import attrgetter
from typing import Protocol

import orjson

from libs.catalogue.contests.closing_record import Closing, closing_of, votes_from
from libs.catalogue.contests.vote_sources import SourceConfig
from libs.catalogue.errors import NotClosed
from libs.certificates.merkle_proofs import NO_VOTE, Leaf, root_of
from libs.contracts.catalogue_events import ContestClosing, catalogue_codec, contests_of
from libs.contracts.certificates import (
    FORMAT,
    Certificate,
    CertifiedResult,
    CertifiedSource,
    CertifiedSubRating,
    Decision,
    NamedParticipant,
    ParticipantResult,
    Ratings,
    RegisteredSource,
    SealedPartition,
    SourceMark,
    SourceVotes,
    stamped,
)
from libs.contracts.codec import Undecodable, vote_codec
from libs.contracts.log_records import LogRecord, about
from libs.contracts.topics import Topic, source_log_key
from libs.results.contest_counts import NO_RATINGS, Counts, counts_of
from libs.results.contest_results import ParticipantSource, Results, places, rank_keys, results_of
from libs.tally.contest import Contest, ParticipantStatus
from libs.tally.counts import RatingSums, VoteSums
from libs.tally.events import ContestClosed, Event, LogCreated, LogLost, VoteCast
from libs.tally.fold import ContestTally, PartitionTally
from libs.tally.voter_ledger import FoldedVote, VoteStatus
from libs.views.votes.votes_apply_items import POISON, fold_item

Batches = AsyncGenerator[Sequence[LogRecord], None]
Keep = Callable[[int, Sequence[Leaf]], Awaitable[None]]
"""Stores the leaves of a partition."""


class CertifiedLog(Protocol):
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


@dataclass(frozen=True, slots=True)
class Decided:
    """A closing and its position in the log."""

    closing: Closing
    contest_type: str
    votes_from: int
    at: Decision


async def find_decision(
    records: AsyncIterator[Sequence[LogRecord]], account: str, contest: str, seq: int
) -> Decided:
    """Return closing number `seq` from the `records` of the account's partition.

    Applies the rule of the catalogue's fold: a ContestClosing made from another than the contest's latest
    configuration was rejected. Raises `NotClosed`.
    """
    log_id, version = "", -1
    async for batch in records:
        events = catalogue_codec.decode_many([record.value for record in batch])
        for record, event in zip(batch, events, strict=True):
            if isinstance(event, LogCreated) and record.offset == 0:
                log_id = event.log_id
            if isinstance(event, Undecodable) or contest not in contests_of(event):
                continue
            if isinstance(event, ContestClosing) and (event.account, event.expected_config) == (account, version):
                document = orjson.loads(event.record)
                closing = closing_of(document)
                if closing is not None and closing.seq == seq:
                    where = Decision(account=account, log_id=log_id, offset=record.offset)
                    return Decided(closing, document.get("contest_type", "voteonly"), votes_from(document), where)
            version = record.offset
    raise NotClosed(f"The log holds no closing number {seq} of contest {contest}.")


class LeafFold:
    """Folds a partition until the close markers of the contest and of `sources`, which report here: then it
    `is_complete`.

    Records after a marker change nothing and are no leaves: a source's marker ends its reports, the contest's
    marker all other records.
    """

    def __init__(self, contest: str, seq: int, sources: Collection[str]) -> None:
        self.log_id = ""
        self.mark: int | None = None
        self.source_marks: dict[str, int] = {}
        self._contest = contest
        self._seq = seq
        self._sources = sources
        self._tally = PartitionTally()
        self._records: list[tuple[int, bytes, FoldedVote | None]] = []
        self._lost: dict[LogLost, int] = {}

    @property
    def is_complete(self) -> bool:
        return self.mark is not None and len(self.source_marks) == len(self._sources)

    @property
    def lost(self) -> int:
        """Return how many of the contest's votes the log lost."""
        return sum(self._lost.values())

    @property
    def sums(self) -> ContestTally:
        """Return the contest's sums in this partition, without voters; of external sources only those that report
        here.
        """
        full = self._full
        sources = {name: its for name, its in full.sources.items() if name in self._sources}
        return ContestTally(figures=full.figures, ratings=full.ratings, sources=sources, closed=full.closed)

    def take(self, records: Sequence[LogRecord]) -> None:
        """Fold the next records, up to the last close marker."""
        some = about(records, self._contest)
        for record, event in zip(some, vote_codec.decode_many([one.value for one in some]), strict=True):
            if not isinstance(event, Undecodable) and fold_item(event, 0, 0)[0] != POISON:
                self._fold(event, record)
            if self.is_complete:
                return

    def leaves(self, approved: Collection[str]) -> Iterator[Leaf]:
        """Yield the leaves in log order; `approved` are the participants in the result."""
        for offset, value_hash, vote in self._records:
            became, receipt = (NO_VOTE, NO_VOTE) if vote is None else (_became(vote, approved), vote.cast.receipt)
            yield Leaf(offset, became, receipt, value_hash.hex())

    @property
    def _full(self) -> ContestTally:
        return self._tally.contests.setdefault(self._contest, ContestTally())

    def _fold(self, event: Event, record: LogRecord) -> None:
        if isinstance(event, LogCreated) and record.offset == 0:
            self.log_id = event.log_id
        if isinstance(event, LogLost):
            self._lost[event] = dict(event.votes).get(self._contest, 0)
        self._tally.evolve(event, record.offset, record.timestamp_ms)
        if getattr(event, "contest", None) != self._contest:
            return
        if isinstance(event, ContestClosed):
            self._note_marks(record.offset)
        if not self._is_behind(event):
            vote = self._folded(event, record.offset) if isinstance(event, VoteCast) else None
            self._records.append((record.offset, sha256(record.value).digest(), vote))

    def _note_marks(self, offset: int) -> None:
        """Note new close markers at `offset`; a marker that was already void closes nothing."""
        contest = self._full
        if self.mark is None and contest.closed == self._seq:
            self.mark = offset
        for name in self._sources:
            if name in contest.sources and contest.sources[name].closed == self._seq:
                self.source_marks.setdefault(name, offset)

    def _is_behind(self, event: Event) -> bool:
        """Return whether the event is after its close marker; the marker itself is."""
        source = getattr(event, "source", None)
        return source in self.source_marks if source in self._sources else self.mark is not None

    def _folded(self, cast: VoteCast, offset: int) -> FoldedVote | None:
        """Return the folded vote, if the fold accepted it from this record."""
        voter = self._full.voters.get(cast.voter)
        vote = None if voter is None else voter.votes.get(cast.vote_id)
        return vote if vote is not None and vote.offset == offset else None


def _became(vote: FoldedVote, approved: Collection[str]) -> str:
    """Return the vote's outcome; a counted vote is in the result if one of its participants is approved."""
    if vote.status is VoteStatus.COUNTED and not any(key in approved for key, _ in vote.cast.choices):
        return "unapproved"
    return vote.status.name.lower()


class Sealing:
    """One closing of a contest, read from the log."""

    def __init__(self, log: CertifiedLog, contest: str, seq: int, decided: Decided) -> None:
        self._log = log
        self._contest = contest
        self._seq = seq
        self._decided = decided
        self._approved = decided.closing.approved
        self._topic = log.topic_from(decided.votes_from)

    @classmethod
    async def open(cls, log: CertifiedLog, account: str, contest: str, seq: int) -> "Sealing":
        """Find the closing in the log. Raises `NotClosed` if the log does not hold it."""
        async with aclosing(log.catalogue(account)) as records:
            return cls(log, contest, seq, await find_decision(records, account, contest, seq))

    async def certify(
        self, advance: Callable[[int], None] = lambda _: None, keep: Keep | None = None
    ) -> Certificate:
        """Compute the certificate; `advance` receives the number of votes' records read, `keep` all leaves.

        Raises `NotClosed` if a close marker is missing.
        """
        tallies, partitions = [], []
        for partition in self._topic.numbers:
            fold = await self._fold(partition, advance)
            leaves = list(fold.leaves(self._approved))
            if keep is not None:
                await keep(partition, leaves)
            tallies.append(fold.sums)
            partitions.append(self._sealed(partition, fold, leaves))
        closing = self._decided.closing
        return stamped(
            Certificate(
                format=FORMAT,
                contest_key=self._contest,
                title=closing.title,
                participants=[
                    NamedParticipant(participant_key=key, status=status, title=title)
                    for key, status, title in closing.participants
                ],
                seq=self._seq,
                end=closing.end,
                decision=self._decided.at,
                sources=[_registered(*item) for item in sorted(closing.sources.items())],
                partitions=partitions,
                result=self._result(counts_of(tallies, {})),
                sha256="",
            )
        )

    async def leaves(self, partition: int, advance: Callable[[int], None] = lambda _: None) -> list[Leaf]:
        """Return the leaves of a partition; `advance` as of `certify`. Raises `NotClosed`."""
        fold = await self._fold(partition, advance)
        return list(fold.leaves(self._approved))

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

    def _result(self, counts: Counts) -> CertifiedResult:
        """Return the result of the approved participants, by the sources' registrations at the closing."""
        decided, seq = self._decided, self._seq
        approved: dict[str, ParticipantStatus] = dict.fromkeys(self._approved, "approved")
        contest = Contest(self._contest, decided.at.account, decided.at.offset, participants=approved, closed=seq)
        return certified(decided.contest_type, counts, results_of(contest, decided.closing.sources, counts))

    def _sealed(self, partition: int, fold: LeafFold, leaves: Sequence[Leaf]) -> SealedPartition:
        assert fold.mark is not None
        hashes = [leaf.hash for leaf in leaves]
        return SealedPartition(
            partition=partition,
            log_id=fold.log_id,
            mark=fold.mark,
            sources=[SourceMark(source=name, mark=mark) for name, mark in sorted(fold.source_marks.items())],
            lost=fold.lost,
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


def certified(contest_type: str, counts: Counts, results: Results) -> CertifiedResult:
    """Return the certified result; `results` were computed from `counts`."""
    totals, keys = results.totals, sorted(results.participants)
    rated = contest_type == "rating"
    ranks = places(rank_keys(contest_type, counts, results))
    return CertifiedResult(
        contest_type=contest_type,
        **_votes(totals[""]),
        sources=[
            CertifiedSource(source=total.source, is_in_total=total.is_in_total, **_votes(total.figures))
            for total in sorted(results.sources, key=attrgetter("source"))
        ],
        participants=[
            ParticipantResult(
                participant_key=key,
                rank=ranks[key],
                **_votes(totals[key]),
                sources=[
                    SourceVotes(source=source, mapped_id=mapped_id, **_votes(figures))
                    for source, figures, mapped_id in sorted(results.participants[key], key=_place)
                ],
                rating=_ratings(counts.ratings.get(key, NO_RATINGS)) if rated else None,
            )
            for key in keys
        ],
        rating=_ratings(results.rating) if rated else None,
    )


def _place(figures: ParticipantSource) -> tuple[str, str]:
    return figures.source, figures.mapped_id or ""


def _votes(figures: VoteSums) -> dict[str, int]:
    return {
        "count": figures.count,
        "unique_voter_count": figures.unique,
        "anonymous_voter_count": figures.anonymous,
    }


def _ratings(sums: RatingSums) -> Ratings:
    given = sorted((name, *each) for name, each in sums.sub_ratings.items() if each[0])
    subs = [CertifiedSubRating(sub_rating_id=name, count=count, total=total) for name, count, total in given]
    return Ratings(count=sums.count, total=sums.total, sub_ratings=subs)
