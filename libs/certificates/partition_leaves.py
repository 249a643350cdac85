"""A contest's records in one partition of the votes log, up to the close markers, as leaves of a Merkle tree."""

from collections.abc import Collection, Iterator, Sequence
from hashlib import sha256

from libs.certificates.proofs.leaves import NO_VOTE, Leaf
from libs.contracts.codec import Undecodable, vote_codec
from libs.contracts.log_records import LogRecord
from libs.tally.events import ContestClosed, Event, LogCreated, VoteCast
from libs.tally.fold import ContestTally, PartitionTally
from libs.tally.voter_ledger import FoldedVote, VoteStatus
from libs.views.votes_apply_items import POISON, fold_item


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

    @property
    def is_complete(self) -> bool:
        return self.mark is not None and len(self.source_marks) == len(self._sources)

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
        events = vote_codec.decode_many([record.value for record in records])
        for record, event in zip(records, events, strict=True):
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
