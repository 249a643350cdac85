"""What the log says, counted once more in the plainest way, and what the promises demand of everything else."""

from __future__ import annotations

from collections import defaultdict

from libs.tally.contest import UNLIMITED
from libs.tally.events import Event, Fence, VoteCast
from libs.tally.standing import VoteStatus
from libs.tally.tallies import PartitionTally
from tests.libs.views.simulation.model import APPEND_MS
from tests.libs.views.simulation.world import Violation, World


def votes_of(log: list[Event]) -> dict[tuple[str, str], VoteCast]:
    """The first unfenced record of each vote id of each voter."""
    fence, votes = 0, dict[tuple[str, str], VoteCast]()
    for event in log:
        if isinstance(event, Fence):
            follows = event.after in (None, fence) and event.incarnation > fence
            fence = event.incarnation if follows else fence
        elif isinstance(event, VoteCast) and event.incarnation == fence:
            votes.setdefault((event.voter, event.vote_id), event)
    return votes


def folded(log: list[Event]) -> PartitionTally:
    tally = PartitionTally()
    for offset, event in enumerate(log):
        tally.evolve(event, offset, offset * APPEND_MS)
    return tally


def demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Violation(otherwise)


def check_view(world: World) -> None:
    """The view equals the fold of the log up to the position that it carries."""
    tally = folded(world.log[: world.ledger.state().position.offset])
    demand(not (found := world.ledger.differences(tally)), f"view and fold differ: {found}")


def check(world: World) -> None:
    """Once everything has settled."""
    votes, tally = votes_of(world.log), folded(world.log)
    check_view(world)
    check_answers(world, votes, tally)
    check_limits(votes)
    check_allowances(world, votes)
    contest = tally.contests.get("contest")
    counted, overruled = (contest.counted_ids, contest.overruled_ids) if contest else (0, 0)
    demand(len(votes) == counted + overruled, f"{len(votes)} ids, {counted} counted, {overruled} overruled")
    demand(not overruled, f"{overruled} overruled")
    total = sum(count for vote in votes.values() for _, count in vote.choices)
    in_fold = contest.figures if contest else {}
    demand(
        total == sum(figures.count for (name, source), figures in in_fold.items() if name and source),
        f"{total} votes in the log are other ones in the fold",
    )


def check_answers(world: World, votes: dict[tuple[str, str], VoteCast], tally: PartitionTally) -> None:
    for success in world.successes:
        command = success.command
        vote = votes.get((command.voter, command.vote_id))
        if vote is None:
            raise Violation(f"{command.vote_id} of {command.voter} was answered 201, and is not in the log")
        demand(vote.content == command.content, f"{command.vote_id} was answered 201 for two contents")
        demand(vote.accepted_at == success.accepted_at, f"{command.vote_id} was accepted at two times")
        status = tally.contests["contest"].voters[command.voter].votes[command.vote_id].status
        demand(status is VoteStatus.COUNTED, f"{command.vote_id} of {command.voter} was answered 201: {status}")
    known = votes.keys() - world.granted
    demand(not known, f"never admitted, but in the log: {known}")


def check_limits(votes: dict[tuple[str, str], VoteCast]) -> None:
    """No sum exceeds the largest limit that its votes were admitted by."""
    sums: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    for vote in votes.values():
        ((participant, count),) = vote.choices
        sums[vote.voter, vote.source, participant].append((count, vote.max_participant))
        sums[vote.voter, vote.source].append((count, vote.max_contest))
    for what, parts in sums.items():
        limits, total = {limit for _, limit in parts}, sum(count for count, _ in parts)
        demand(UNLIMITED in limits or total <= max(limits), f"{what} has {total} votes, limits {limits}")


def check_allowances(world: World, votes: dict[tuple[str, str], VoteCast]) -> None:
    """What the ledger holds against a voter is what the log holds: no reservation leaks."""
    spent: dict[tuple[str, str, str], int] = defaultdict(int)
    for vote in votes.values():
        ((participant, count),) = vote.choices
        for name in (participant, ""):
            spent[vote.voter, name, vote.source] += count
    held: dict[tuple[str, str, str], int] = defaultdict(int)
    for voter in {vote.voter for vote in votes.values()}:
        for row in world.ledger.allowance("contest", voter):
            held[voter, row.participant, row.source] += row.votes
    demand(held == spent, f"used up {dict(held)}, in the log {dict(spent)}")
