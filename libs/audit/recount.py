"""A contest's votes from the log, and its result without some of them."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from libs.audit.historical_counts import EVER, fold_until
from libs.audit.log_fold import LogFold
from libs.catalogue.contests.closing_record import is_sealed
from libs.catalogue.contests.contest_mapper import contest_of, sources_of
from libs.contracts.catalogue_events import ContestRecords
from libs.deployment.deployment import Deployment
from libs.results.contest_counts import counts_of
from libs.results.contest_results import results_of, vote_count
from libs.tally.contest import Contest, Phase
from libs.tally.errors import ContestFinal, NotFound
from libs.tally.events import ContestReopened, VoteRestored, VoteVoided
from libs.tally.fold import ContestTally
from libs.tally.voter_ledger import FoldedVote

VoidEvent = VoteVoided | VoteRestored
NO_VOTES: Final = ContestTally()


class PositionedVote(NamedTuple):
    """A vote and its position in the log."""

    partition: int
    voter: str
    vote: FoldedVote


@dataclass(frozen=True, slots=True)
class Ballots:
    """All votes of a contest up to `positions` (an offset per partition), read at `at` (us).

    For a contest that is over, they are as after a reopening, with all waiting changes applied.
    """

    contest: Contest
    config: ContestRecords
    folds: list[LogFold]
    at: int

    @property
    def is_over(self) -> bool:
        return self.contest.phase(self.at) is Phase.FINISHED

    @property
    def positions(self) -> dict[int, int]:
        return {fold.partition: fold.offset for fold in self.folds}

    @property
    def voids(self) -> dict[str, VoteVoided]:
        """Return the first record of each void operation on these votes, by operation id."""
        found: dict[str, VoteVoided] = {}
        for ballot in self:
            for event in ballot.vote.voids:
                found.setdefault(event.void, event)
        return found

    def __iter__(self) -> Iterator[PositionedVote]:
        for fold in self.folds:
            for voter, ledger in self._tally(fold).voters.items():
                for vote in ledger.votes.values():
                    yield PositionedVote(fold.partition, voter, vote)

    def record(self) -> dict[str, Any]:
        """Return the vote count record."""
        assert self.config.contest is not None
        counts = counts_of([self._tally(fold) for fold in self.folds], {})
        results = results_of(self.contest, sources_of(self.config), counts)
        return vote_count(self.contest, self.config.contest.created, counts, results, sources=False)

    def fold(self, partition: int, event: VoidEvent) -> None:
        """Apply `event` to the fold of `partition`, as if it were appended to the log."""
        fold = next(each for each in self.folds if each.partition == partition)
        fold.tally.contests[self.contest.key].void(event)

    def _tally(self, fold: LogFold) -> ContestTally:
        return fold.tally.contests.get(self.contest.key, NO_VOTES)


async def read_ballots(deployment: Deployment, key: str) -> Ballots:
    """Read all votes of a contest.

    Raises `NotFound`, `ContestFinal` while it is sealed or closing, and the errors of reading the log.
    """
    account, config = await deployment.catalogue.contest(key)
    contest = contest_of(account, config)
    if contest is None or config.contest is None:
        raise NotFound(f"Contest {key} not found.")
    if is_sealed(config.contest.document):
        raise ContestFinal("The contest is sealed: its result cannot change. Run `tally unseal` first.")
    now = time.time_ns() // 1000
    partitions = deployment.votes.topic_from(contest.votes_from).numbers
    folds, _, _ = await fold_until(deployment, key, EVER, partitions)
    tallies = [fold.tally.contests.get(key, NO_VOTES) for fold in folds]
    if is_being_closed(contest, tallies, now):
        raise ContestFinal("The contest has ended and is closing: run this command again in a few seconds.")
    for tally in tallies:
        tally.reopen(ContestReopened(key, abs(tally.closed)))
    return Ballots(contest, config, folds, now)


def is_being_closed(contest: Contest, tallies: Sequence[ContestTally], now: int) -> bool:
    """Return whether the contest is closing, so that a record appended now may land before or after a close
    marker.
    """
    over = contest.phase(now) is Phase.FINISHED
    return over and not (contest.closed and all(tally.closed == contest.closed for tally in tallies))
