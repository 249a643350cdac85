"""What a view and a fold can disagree about, one row each."""

from collections.abc import Iterator
from dataclasses import dataclass

from libs.tally.figures import Figures
from libs.tally.standing import Standing
from libs.tally.tallies import ContestTally
from libs.views.ledger import INLINE, SpillPage, SumKey, VoterRow, VotersPage, read_record, record_of
from libs.views.packing import SOURCES, digest
from libs.views.votes import ContestCounts, PartitionState
from services.operations.verification.fold import LogFold


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure on which log and view disagree; "" where it is not about a contest, participant or source."""

    partition: int
    what: str
    log: str
    view: str
    contest: str = ""
    participant: str = ""
    source: str = ""


def state_differences(fold: LogFold, state: PartitionState) -> Iterator[Difference]:
    """The records that changed nothing, and the fence."""
    tally = fold.tally
    for what, log, view in (
        ("fence", tally.fence, state.fence),
        ("fenced", tally.fenced, state.fenced),
        ("duplicates", tally.duplicates, state.duplicates),
        ("overruled", tally.overruled, state.overruled),
        ("quarantined", fold.quarantined, state.quarantined),
    ):
        if log != view:
            yield Difference(fold.partition, what, str(log), str(view))


def counts_differences(fold: LogFold, contest: str, counts: ContestCounts) -> Iterator[Difference]:
    """Counts, distinct voters and anonymous ones per participant and source, and the contest's own row."""
    tally = fold.tally.contests.get(contest, ContestTally())
    for participant in sorted({key[0] for key in (*tally.figures, *counts.figures)}):
        for source in (*SOURCES, ""):
            log = _figures(tally, participant, source)
            view = counts.figures.get((participant, source), Figures())
            for what, said, shown in (
                ("votes", log.count, view.count),
                ("unique voters", log.unique, view.unique),
                ("anonymous voters", log.anonymous, view.anonymous),
            ):
                if said != shown:
                    where = contest, participant, source
                    yield Difference(fold.partition, what, str(said), str(shown), *where)
    for what, said, shown in (
        ("vote ids counted", tally.counted_ids, counts.counted_ids),
        ("vote ids overruled", tally.overruled_ids, counts.overruled_ids),
        ("offset of the last change", tally.last_offset, counts.changed),
        ("time of the last change (ms)", tally.last_time_ms, counts.updated_ms or 0),
    ):
        if said != shown:
            yield Difference(fold.partition, what, str(said), str(shown), contest)


def voters_differences(fold: LogFold, contest: str, page: VotersPage) -> Iterator[Difference]:
    """Every vote id of these voters, and what they have used."""
    tally = fold.tally.contests.get(contest, ContestTally())
    indexes = fold.indexes.get(contest, {})
    for row in page.rows:
        standing = tally.voters.get(row.voter)
        if standing is None:
            yield _of_voter(fold, contest, row.voter, "voter", "nothing", f"{len(row.records)} vote ids")
        else:
            yield from _voter_differences(fold, contest, row, standing, indexes)


def spill_differences(fold: LogFold, contest: str, page: SpillPage) -> Iterator[Difference]:
    """The older vote ids of voters with many."""
    tally = fold.tally.contests.get(contest, ContestTally())
    indexes = fold.indexes.get(contest, {})
    older: dict[str, set[bytes]] = {}
    for voter, record in page.rows:
        if voter not in older:
            older[voter] = _older(tally.voters.get(voter, Standing()), indexes)
        if record not in older[voter]:
            shown = str(read_record(record))
            yield _of_voter(fold, contest, voter, "older vote id", "nothing like it", shown)


def missing_voters(fold: LogFold, contest: str, expected: set[str], seen: set[str]) -> Iterator[Difference]:
    for voter in sorted(expected - seen):
        yield _of_voter(fold, contest, voter, "voter", "has voted", "nothing")


def missing_spill(
    fold: LogFold, contest: str, expected: set[tuple[str, bytes]], seen: set[tuple[str, bytes]]
) -> Iterator[Difference]:
    for voter, record in sorted(expected - seen):
        yield _of_voter(fold, contest, voter, "older vote id", _readable(record), "nothing like it")


def voters_of(fold: LogFold, contest: str) -> set[str]:
    return set(fold.tally.contests.get(contest, ContestTally()).voters)


def spill_of(fold: LogFold, contest: str) -> set[tuple[str, bytes]]:
    """The records that the ledger has spilled, as the fold has them."""
    indexes = fold.indexes.get(contest, {})
    return {
        (voter, record)
        for voter, standing in fold.tally.contests.get(contest, ContestTally()).voters.items()
        if len(standing.votes) > INLINE
        for record in _older(standing, indexes)
    }


def _older(standing: Standing, indexes: dict[str, int]) -> set[bytes]:
    votes = list(standing.votes.values())[:-INLINE]
    return {record_of(vote, indexes[vote.cast.choices[0][0]]) for vote in votes}


def _figures(tally: ContestTally, participant: str, source: str) -> Figures:
    """As a view shows them: the count over both sources is their sum, which the tally does not keep."""
    figures = tally.figures.get((participant, source), Figures())
    if source:
        return figures
    count = sum(tally.figures.get((participant, one), Figures()).count for one in SOURCES)
    return Figures(count, figures.unique, figures.anonymous)


def _voter_differences(
    fold: LogFold, contest: str, row: VoterRow, standing: Standing, indexes: dict[str, int]
) -> Iterator[Difference]:
    votes = list(standing.votes.values())
    latest = [record_of(vote, indexes[vote.cast.choices[0][0]]) for vote in votes[-INLINE:]]
    if row.records != latest:
        ids = {digest(vote.cast.vote_id): vote.cast.vote_id for vote in votes}
        for at in range(max(len(latest), len(row.records))):
            said, shown = _at(latest, at), _at(row.records, at)
            if said != shown:
                known = ids.get((said or shown)[:12], "?")
                what = f"vote id {known}"
                yield _of_voter(fold, contest, row.voter, what, _readable(said), _readable(shown))
    spilled = max(0, len(votes) - INLINE)
    if row.spilled != spilled:
        yield _of_voter(fold, contest, row.voter, "older vote ids", str(spilled), str(row.spilled))
    used: dict[SumKey, tuple[int, int]] = {
        (indexes.get(participant, 0), source, epoch): (sums.votes, sums.limit or 0)
        for (participant, source, epoch), sums in standing.used.items()
    }
    if row.used != used:
        yield _of_voter(fold, contest, row.voter, "votes used, with their limit", str(used), str(row.used))


def _of_voter(fold: LogFold, contest: str, voter: str, what: str, log: str, view: str) -> Difference:
    return Difference(fold.partition, f"voter {voter}: {what}", log, view, contest)


def _at(records: list[bytes], at: int) -> bytes:
    return records[at] if at < len(records) else b""


def _readable(record: bytes) -> str:
    return str(read_record(record)) if record else "nothing"
