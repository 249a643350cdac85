"""Operators: void and restore votes concurrently with everything else."""

from collections.abc import Callable
from random import Random

from libs.contracts.log_records import Appended
from libs.tally.events import VoteRestored, VoteVoided
from libs.tally.voter_ledger import FoldedVote, VoteStatus
from tests.libs.views.simulation.driver import produce
from tests.libs.views.simulation.promise_checks import folded
from tests.libs.views.simulation.simulated_system import SimulatedSystem, Steps


def operator(system: SimulatedSystem, rng: Random, void: str) -> Steps:
    """Voids some of the votes that count, once or again, and most often restores them later."""
    yield 1
    for _ in range(rng.choice([1, 1, 2])):
        yield from _tell(system, rng, void, VoteStatus.COUNTED)
    if rng.random() < 0.7:
        yield rng.choice([1, 1, 20, 100])
        yield from _tell(system, rng, void, VoteStatus.VOIDED)


def _tell(system: SimulatedSystem, rng: Random, void: str, status: VoteStatus) -> Steps:
    """Of votes that the log has with `status`. A record that was not acknowledged is appended again, or not."""
    for voter, vote_id in _votes(
        system, lambda vote: vote.status is status and (not vote.void or vote.void == void)
    ):
        name = void, voter, vote_id
        if rng.random() < 0.3:
            continue
        what = "contest", voter, vote_id, void, system.now
        event = VoteVoided(*what) if status is VoteStatus.COUNTED else VoteRestored(*what)
        system.voided.add(name)
        for _ in range(rng.choice([1, 3])):
            if isinstance((yield from produce(system, event)), Appended):
                if isinstance(event, VoteRestored):
                    system.restored.add(name)
                break


def _votes(system: SimulatedSystem, wanted: Callable[[FoldedVote], bool]) -> list[tuple[str, str]]:
    contest = folded(system.log).contests.get("contest")
    return [
        (voter, vote_id)
        for voter, standing in (contest.voters.items() if contest else ())
        for vote_id, vote in standing.votes.items()
        if wanted(vote)
    ]
