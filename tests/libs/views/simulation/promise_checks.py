"""Checks of the promises on log, views and answers, once everything has settled."""

from collections import Counter

from libs.tally.counts import VoteSums
from libs.tally.events import (
    ContestClosed,
    ContestReopened,
    Event,
    SourceReported,
    VoteCast,
    VoteRemoved,
    VoteRestored,
    address_votes,
)
from libs.tally.fold import ContestTally, PartitionTally
from libs.tally.vote_commands import CastVote
from libs.tally.voter_ledger import VoteStatus
from tests.libs.views.simulation.model_gate import APPEND_MS
from tests.libs.views.simulation.simulated_system import SimulatedSystem, Violation
from tests.simulation.naive_fold import USING, PlainCount, Sum, plainly


def folded(log: list[Event]) -> PartitionTally:
    tally = PartitionTally()
    for offset, event in enumerate(log):
        tally.evolve(event, offset, offset * APPEND_MS)
    return tally


def demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Violation(otherwise)


def check_view(system: SimulatedSystem) -> None:
    """The view equals the fold of the log up to the position that it carries."""
    tally = folded(system.log[: system.ledger.state().position.offset])
    demand(not (found := system.ledger.differences(tally)), f"view and fold differ: {found}")


def check(system: SimulatedSystem) -> None:
    count = plainly(system.log)
    contest = folded(system.log).contests.get("contest", ContestTally())
    check_view(system)
    check_fold(contest, count)
    check_answers(system, count)
    check_removals(system, count)
    check_voids(system, count)
    check_periods(system, count)
    check_allowances(system, count)
    check_close(system, contest)
    check_addresses(system, count)


def check_fold(contest: ContestTally, count: PlainCount) -> None:
    """Removed and replaced votes left no trace, and nothing admitted was too late or too much."""
    ids = Counter(vote.status for vote in count.votes.values())
    demand(contest.ids == ids, f"ids {contest.ids}, counted plainly {ids}")
    demand(not ids[VoteStatus.OVERRULED], "a vote was overruled")
    demand(not ids[VoteStatus.LATE], "a vote came after the close")
    figures = {key: its for key, its in contest.figures.items() if its != VoteSums()}
    demand(figures == count.figures(), f"figures {figures}, counted plainly {count.figures()}")
    rated = {name: sums for name, sums in contest.ratings.items() if sums.count}
    ratings = {
        name: (its.count, its.total, {sub: sums for sub, sums in its.sub_ratings.items() if sums[0]})
        for name, its in rated.items()
    }
    demand(ratings == count.ratings(), f"ratings {ratings}, counted plainly {count.ratings()}")


def check_answers(system: SimulatedSystem, count: PlainCount) -> None:
    for success in system.successes:
        name = success.command.voter, success.command.vote_id
        vote = count.votes.get(name)
        if vote is None:
            raise Violation(f"{name} was answered 201, and is not in the log")
        if vote.cast is not None:
            demand(vote.cast.content == success.command.content, f"{name} was answered 201 for two contents")
            demand(vote.cast.accepted_at == success.accepted_at, f"{name} was accepted at two times")
        removed = vote.status is VoteStatus.REMOVED and name in system.unwanted
        stands = vote.status in (VoteStatus.COUNTED, VoteStatus.REPLACED, VoteStatus.VOIDED)
        demand(stands or removed, f"{name} was answered 201: {vote.status.name}")
    cast = {name for name, vote in count.votes.items() if vote.cast is not None}
    demand(not cast - system.granted, f"never admitted, but in the log: {cast - system.granted}")


def check_removals(system: SimulatedSystem, count: PlainCount) -> None:
    waiting = {(late.voter, late.vote_id) for late in count.waiting if isinstance(late, VoteRemoved)}
    for removed in system.removed:
        name = removed.command.voter, removed.command.vote_id
        refund = isinstance(removed.command, CastVote)
        vote = count.votes.get(name)
        counts = vote is not None and vote.status in USING
        demand(not counts or (refund and name in waiting), f"{name} was answered 204, and counts or may yet")
        demand(vote is not None or (refund and name in waiting), f"{name} was answered 204, and may still come")


def check_voids(system: SimulatedSystem, count: PlainCount) -> None:
    """Only an operator voids a vote, and what was restored no late copy voids again."""
    waiting = {(late.void, late.voter, late.vote_id) for late in count.waiting if isinstance(late, VoteRestored)}
    for name, vote in count.votes.items():
        if vote.status is VoteStatus.VOIDED:
            void = vote.voids[-1], *name
            demand(void in system.voided, f"{name} is voided, and nobody asked for it")
            demand(void not in system.restored - waiting, f"{name} was restored, and is voided")


def check_periods(system: SimulatedSystem, count: PlainCount) -> None:
    """A new allowance period begins no earlier than some configuration renews the latest free vote's."""
    free: dict[str, list[VoteCast]] = {}
    for vote in count.votes.values():
        if vote.cast is not None and vote.cast.source == "c-free":
            free.setdefault(vote.cast.voter, []).append(vote.cast)
    for casts in free.values():
        epoch, latest = 0, set[int]()
        # the clock of a server that lost it may go back, but only after a fence
        for cast in sorted(casts, key=lambda cast: (cast.incarnation, cast.accepted_at, cast.epoch)):
            if latest:
                moments = [change.renewal.after(moment) for change in system.changes for moment in latest]
                renewed = any(moment is not None and cast.accepted_at >= moment for moment in moments)
                same, later = cast.epoch == epoch, cast.epoch > epoch
                demand(same or (later and renewed), f"another period than {epoch}: {cast}")
            # where the clock went back, a voter who first had no renewal is known by the last vote alone
            epoch, latest = cast.epoch, {max(*latest, cast.accepted_at, 0), cast.accepted_at}


def check_allowances(system: SimulatedSystem, count: PlainCount) -> None:
    """The ledger holds against a voter what the log holds: no reservation leaks."""
    held: Counter[Sum] = Counter()
    used: Counter[Sum] = Counter()
    for voter in count.anonymous:
        for row in system.ledger.allowance("contest", voter).used:
            held[voter, row.source, row.epoch, row.participant] += row.votes
    for (voter, source, epoch, participant), votes in count.used().items():
        # the sums of periods that are over are one
        kept = 0 if source == "c-free" and epoch < count.latest_epoch(voter) - 1 else epoch
        used[voter, source, kept, participant] += votes
    demand(+held == +used, f"used up {+held}, in the log {+used}")


def check_close(system: SimulatedSystem, contest: ContestTally) -> None:
    """Nothing after the close marker in force has changed a count."""
    if contest.closed > 0:
        mark = system.log.index(ContestClosed("contest", contest.closed))
        then = folded(system.log[:mark]).contests.get("contest", ContestTally())
        demand(then.figures == contest.figures and then.ids == contest.ids, "the result changed after the close")


def check_sources(contest: ContestTally, log: list[Event]) -> None:
    """A source's latest report of an id is counted or held, and a report id counts once."""
    latest: dict[tuple[str, str], int] = {}
    seen: set[tuple[str, str]] = set()
    closed: dict[str, int] = {}
    reopened = 0
    plain = PlainCount()
    for event in log:
        plain.take(event)
        match event:
            case ContestClosed(source=str() as source) if event.seq > reopened:
                closed[source] = max(closed.get(source, 0), event.seq)
            case ContestReopened() if plain.reopened > reopened:
                reopened = plain.reopened
                closed = {source: seq for source, seq in closed.items() if seq > reopened}
            case SourceReported() if (event.source, event.report_id) not in seen:
                seen.add((event.source, event.report_id))
                for mapped, count, _, _ in event.counts if event.source not in closed else ():
                    before = latest.get((event.source, mapped), 0) if event.mode == "delta" else 0
                    latest[event.source, mapped] = before + count
    reported = {
        (source, mapped): (kept.held.get(mapped) or kept.figures[mapped]).count
        for source, kept in contest.sources.items()
        for mapped in kept.figures
    }
    assert reported == latest


def check_addresses(system: SimulatedSystem, count: PlainCount) -> None:
    """Votes of one address are within its limit. Replacements share a use."""
    if system.changes[0].contest_type == "rating":
        return
    used: Counter[tuple[str, str]] = Counter()
    for vote in count.votes.values():
        if vote.cast is not None and vote.cast.address and vote.status in USING:
            for name, votes in address_votes(vote.cast.form, vote.cast.choices):
                used[name, vote.cast.address] += votes
    limit = system.changes[0].ip_restriction_per_participant
    demand(limit < 0 or all(votes <= limit for votes in used.values()), f"addresses {used} above {limit}")
