"""A contest's records in one partition of the votes' log, up to the marks of one closing, as leaves of a tree."""

from collections.abc import Collection, Iterator, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from libs.certificates.merkle import leaf_hash
from libs.contracts.codec import Undecodable, vote_codec
from libs.contracts.log_records import LogRecord
from libs.tally.events import ContestClosed, Event, LogCreated, VoteCast
from libs.tally.fold import ContestTally, PartitionTally
from libs.tally.voter_ledger import FoldedVote, VoteStatus
from libs.views.serialization import POISON, fold_item

NO_VOTE: Final = "-"


class Leaf(NamedTuple):
    """What a leaf commits to. `became` and `receipt` are "-" of what is no vote that the fold took."""

    offset: int
    became: str
    receipt: str
    value_sha256: str

    @property
    def hash(self) -> bytes:
        return leaf_hash(" ".join(map(str, self)).encode())


class LeafFold:
    """Folds until the contest's mark and those of `sources`, which report here, have come: then it `is_complete`.

    What comes behind a mark changes nothing and is no leaf: of the sources their own counts, of all else the
    contest's.
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
        """What the contest adds up to here, without its voters; of external sources those that report here."""
        full = self._full
        sources = {name: its for name, its in full.sources.items() if name in self._sources}
        return ContestTally(figures=full.figures, ratings=full.ratings, sources=sources, closed=full.closed)

    def take(self, records: Sequence[LogRecord]) -> None:
        """Fold the records that follow, up to the last of the marks."""
        events = vote_codec.decode_many([record.value for record in records])
        for record, event in zip(records, events, strict=True):
            if not isinstance(event, Undecodable) and fold_item(event, 0, 0)[0] != POISON:
                self._fold(event, record)
            if self.is_complete:
                return

    def leaves(self, approved: Collection[str]) -> Iterator[Leaf]:
        """In the order of the log. `approved` are the participants that take part."""
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
        """Whatever is closed by now was so by the record at `offset`; a mark that came voided closes nothing."""
        contest = self._full
        if self.mark is None and contest.closed == self._seq:
            self.mark = offset
        for name in self._sources:
            if name in contest.sources and contest.sources[name].closed == self._seq:
                self.source_marks.setdefault(name, offset)

    def _is_behind(self, event: Event) -> bool:
        """A mark is so itself."""
        source = getattr(event, "source", None)
        return source in self.source_marks if source in self._sources else self.mark is not None

    def _folded(self, cast: VoteCast, offset: int) -> FoldedVote | None:
        """The vote as the fold keeps it, where it took this very record."""
        voter = self._full.voters.get(cast.voter)
        vote = None if voter is None else voter.votes.get(cast.vote_id)
        return vote if vote is not None and vote.offset == offset else None


def _became(vote: FoldedVote, approved: Collection[str]) -> str:
    """A vote that counts in the fold is in the result where anybody whom it is for takes part."""
    if vote.status is VoteStatus.COUNTED and not any(key in approved for key, _ in vote.cast.choices):
        return "unapproved"
    return vote.status.name.lower()
