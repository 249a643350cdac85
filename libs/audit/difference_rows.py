"""Compares a view's state, counts and voters with a fold; yields a row per difference."""

from collections.abc import Iterator, Sequence

from libs.audit.balances import OUTCOMES
from libs.audit.contest_hashes import index_of, own_participants
from libs.audit.difference import Difference
from libs.audit.log_fold import LogFold
from libs.tally.counts import RatingSums, VoteSums
from libs.tally.fold import ContestTally
from libs.tally.sources import SourceTally
from libs.tally.voter_ledger import FoldedVote, VoterLedger
from libs.views.ledger_scan import INLINE, SumKey, VoterRow, VotersPage, read_record, record_of
from libs.views.reply_types import ContestCounts, PartitionState, SourceCounts
from libs.views.serialization import SOURCES, digest


def state_differences(fold: LogFold, state: PartitionState, figures_of_all: bool) -> Iterator[Difference]:
    """Compare the fence and, in a view of all contests, the number of records without effect."""
    tally = fold.tally
    compared = [
        ("fenced", tally.fenced, state.fenced),
        ("duplicates", tally.duplicates, state.duplicates),
        ("overruled", tally.overruled, state.overruled),
        ("quarantined", fold.quarantined, state.quarantined),
    ]
    for label, log, view in [("fence", tally.fence, state.fence), *(compared if figures_of_all else ())]:
        if log != view:
            yield Difference(fold.partition, label, str(log), str(view))


def counts_differences(fold: LogFold, contest: str, counts: ContestCounts) -> Iterator[Difference]:
    """Compare counts, distinct and anonymous voters by participant and source, and the contest's own row."""
    tally = fold.tally.contests.get(contest, ContestTally())
    for participant in sorted({key[0] for key in (*tally.figures, *counts.figures)}):
        for source in (*SOURCES, ""):
            log = _figures(tally, participant, source)
            view = counts.figures.get((participant, source), VoteSums())
            for label, expected, actual in (
                ("votes", log.count, view.count),
                ("unique voters", log.unique, view.unique),
                ("anonymous voters", log.anonymous, view.anonymous),
            ):
                if expected != actual:
                    where = contest, participant, source
                    yield Difference(fold.partition, label, str(expected), str(actual), *where)
    compared = [
        *((f"vote ids {name}", tally.ids[status], counts.ids.get(status, 0)) for status, name in OUTCOMES.items()),
        ("closing in force", tally.closed, counts.closed),
        ("closing reopened last", tally.reopened, counts.reopened),
        ("offset of the last change", tally.last_offset, counts.changed),
        ("time of the last change (ms)", tally.last_time_ms, counts.updated_ms or 0),
    ]
    for label, expected, actual in compared:
        if expected != actual:
            yield Difference(fold.partition, label, str(expected), str(actual), contest)
    for participant in sorted(tally.ratings.keys() | counts.ratings.keys()):
        rated, seen = (kept.get(participant, RatingSums()) for kept in (tally.ratings, counts.ratings))
        if rated != seen:
            yield Difference(fold.partition, "ratings", str(rated), str(seen), contest, participant)
    for source in sorted(tally.sources.keys() | counts.sources.keys()):
        yield from _source_differences(fold, contest, source, tally, counts)


def _source_differences(
    fold: LogFold, contest: str, source: str, tally: ContestTally, counts: ContestCounts
) -> Iterator[Difference]:
    log = tally.sources.get(source, SourceTally())
    view = counts.sources.get(source, SourceCounts(0, 0, {}, {}))
    for label, expected, actual in (
        ("figures", log.figures, view.figures),
        ("figures held", log.held, view.held),
        ("closing in force", log.closed, view.closed),
        ("time of the last report (ms)", log.updated_ms, view.updated_ms),
    ):
        if expected != actual:
            yield Difference(fold.partition, label, str(expected), str(actual), contest, source=source)


def voters_differences(fold: LogFold, contest: str, page: VotersPage) -> Iterator[Difference]:
    """Compare every vote id of these voters, and the allowance that they used."""
    tally = fold.tally.contests.get(contest, ContestTally())
    indexes = fold.indexes.get(contest, {})
    for row in page.rows:
        standing = tally.voters.get(row.voter)
        if standing is None:
            yield _of_voter(fold, contest, row.voter, "voter", "nothing", f"{len(row.records)} vote ids")
        else:
            yield from _voter_differences(fold, contest, row, standing, indexes)


def missing_voters(fold: LogFold, contest: str, expected: set[str], seen: set[str]) -> Iterator[Difference]:
    for voter in sorted(expected - seen):
        yield _of_voter(fold, contest, voter, "voter", "has voted", "nothing")


def voters_of(fold: LogFold, contest: str) -> set[str]:
    return set(fold.tally.contests.get(contest, ContestTally()).voters)


def _figures(tally: ContestTally, participant: str, source: str) -> VoteSums:
    """Return the sums as a view holds them; the tally does not store the sum over both sources."""
    figures = tally.figures.get((participant, source), VoteSums())
    if source:
        return figures
    count = sum(tally.figures.get((participant, one), VoteSums()).count for one in SOURCES)
    return VoteSums(count, figures.unique, figures.anonymous)


def _last_spilled(votes: Sequence[FoldedVote]) -> bytes:
    """Return the digest of the latest vote id that is not stored with the voter; empty if there is none."""
    older = votes[:-INLINE]
    return digest(older[-1].cast.vote_id) if older else b""


def _voter_differences(
    fold: LogFold, contest: str, row: VoterRow, standing: VoterLedger, indexes: dict[str, int]
) -> Iterator[Difference]:
    votes = list(standing.votes.values())
    latest = [record_of(vote, index_of(fold, contest, vote)) for vote in votes[-INLINE:]]
    if row.records != latest:
        ids = {digest(vote.cast.vote_id): vote.cast.vote_id for vote in votes}
        for at in range(max(len(latest), len(row.records))):
            expected, actual = _at(latest, at), _at(row.records, at)
            if expected != actual:
                known = ids.get((expected or actual)[:12], "?")
                label = f"vote id {known}"
                yield _of_voter(fold, contest, row.voter, label, _readable(expected), _readable(actual))
    own = {"", *own_participants(standing)}
    used: dict[SumKey, tuple[int, int, int]] = {
        (indexes.get(participant, 0), source, epoch): (sums.votes, sums.limit or 0, sums.active)
        for (participant, source, epoch), sums in standing.used.items()
        if participant in own
    }
    slots = {
        (indexes.get(participant, 0), source): digest(vote_id)
        for (participant, source), vote_id in standing.slots.items()
        if participant in own
    }
    for name, log, view in (
        ("older vote ids", max(0, len(votes) - INLINE), row.spilled),
        ("the latest of them", _last_spilled(votes), row.last_spilled),
        ("votes used, with their limit, and those that count", used, row.used),
        ("anonymous", standing.anonymous, row.anonymous),
        ("allowance period", standing.epoch, row.epoch),
        ("latest free vote", standing.latest, row.latest),
        ("votes that later ones replace", slots, row.slots),
    ):
        if log != view:
            yield _of_voter(fold, contest, row.voter, name, str(log), str(view))


def _of_voter(fold: LogFold, contest: str, voter: str, label: str, log: str, view: str) -> Difference:
    return Difference(fold.partition, f"voter {voter}: {label}", log, view, contest)


def _at(records: list[bytes], at: int) -> bytes:
    return records[at] if at < len(records) else b""


def _readable(record: bytes) -> str:
    return str(read_record(record)) if record else "nothing"
