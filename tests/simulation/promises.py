"""The promises, checked on logs, views and answers once everything has settled."""

from collections import Counter, defaultdict
from collections.abc import Collection
from typing import Any

from libs.catalogue.contests.contest_mapper import load_contest
from libs.contracts.codec import vote_codec
from libs.contracts.log_records import Position
from libs.contracts.topics import Topic
from libs.tally.counts import VoteSums
from libs.tally.errors import LimitReached, LimitScope, NotFound
from libs.tally.events import (
    ContestClosed,
    Event,
    LogLost,
    VoteCast,
    VoteRemoved,
    VoteRestored,
    VoteVoided,
)
from libs.tally.fold import ContestTally
from libs.tally.vote_commands import CastVote
from libs.tally.voter_ledger import VoteStatus
from libs.views.purchases.purchase_views import PurchaseViews
from libs.voting.protocol.shared_steps import Accepted
from services.ingestion.vote_forms import VoteStatusAnswer
from services.projector.purchase_steps import UNDECIDED
from tests.simulation.answers import Answer, Name, Violation, demand, first_accepted, first_began
from tests.simulation.catalogue_promises import check_catalogue, check_closings, check_patches
from tests.simulation.comparison import described, described_view, differing
from tests.simulation.contests import VOTING
from tests.simulation.deployment import ACCOUNT, SOURCE_GRACE_S
from tests.simulation.generation_promises import check_generations, check_other_votes
from tests.simulation.logs import Logs, Partition, folded, is_of, records_of
from tests.simulation.naive_fold import USING, PlainCount, Sum, plainly
from tests.simulation.observer import observe
from tests.simulation.source_promises import check_reports
from tests.simulation.virtual_loop import BEGIN_S
from tests.simulation.world import World
from tests.support.clients.vote_views import VoteViews


def unsettled_views(world: World) -> str:
    """Return what the projectors still have to do; "" if nothing."""
    if not all(server.is_up for server in world.deployment.servers):
        return "a server is down"
    return str(observe(world, _unsettled(world)))


async def _unsettled(world: World) -> str:
    votes, catalogue = world.vote_views, world.catalogue_views
    try:
        for number in range(world.partitions):
            state = await votes.state(number)
            if not state.open or state.pending or not _is_folded(world, world.votes_topic, number, state.position):
                return f"votes/{number}: {state}"
        for number in world.catalogue_topic.numbers:
            position = await catalogue.position(number)
            if not _is_folded(world, world.catalogue_topic, number, position):
                return f"catalogue/{number}: {position}"
        if due := await _due(world):
            return f"contests are due: {due}"
        if world.shape.has_purchases:
            return await _unsettled_purchases(world)
    except Exception as error:
        return f"the views cannot be read: {error!r}"
    return ""


def _is_folded(world: World, topic: Topic, number: int, position: Position | None) -> bool:
    return position is not None and position.offset == len(records_of(world, topic, number))


async def _due(world: World) -> Any:
    """Return the contests that are due, also by a clock that went back, or once their sources are."""
    partition, generations = world.catalogue_topic.partition_of(ACCOUNT), world.catalogue_views.generations
    due = await world.catalogue_views.due(partition, 10)
    base = generations.base(partition)
    ahead = world.observer.server(base).process.clock_ahead_s
    if not due and (ahead < 0 or world.shape.has_sources):
        live = (await generations.read(partition)).live.number
        grace_s = max(0.0, ahead) + SOURCE_GRACE_S if world.shape.has_sources else 0.0
        key, now = f"{base}:g{live}:due", round((BEGIN_S + world.loop.now + grace_s) * 1_000_000)
        due = await world.observer.call("ZRANGE", key, "-inf", now, "BYSCORE", "LIMIT", 0, 10)
    return due


async def _unsettled_purchases(world: World) -> str:
    topic, views = world.deployment.purchases_topic, world.purchase_views
    for number in range(world.partitions):
        position = await views.position(number)
        if not _is_folded(world, topic, number, position):
            return f"purchases/{number}: {position}"
        if todo := await views.todo(number, -1, 10):
            return f"purchases are open: {todo}"
    return await _miscounted(world, views)


async def _miscounted(world: World, views: PurchaseViews) -> str:
    """Return a purchase whose votes count although their choice is rejected or deleted, or the other way round."""
    catalogue = world.catalogue_views
    contests = {name: await load_contest(catalogue, ACCOUNT, name) for name in world.kinds}
    for bought in world.bought:
        purchase: Any = None if bought.key is None else await views.get(ACCOUNT, bought.key)
        if purchase is not None and purchase.status in ("cast", "uncounted"):
            contest = contests[bought.contest]
            counts = contest is not None and contest.participants.get(bought.participant) == "approved"
            if counts != (purchase.status == "cast"):
                return f"{bought} is {purchase.status}, and its votes {'count' if counts else 'do not count'}"
    return ""


def check(world: World) -> None:
    """Raise `Violation` for the first promise that is broken."""
    if world.loop.errors:
        raise Violation(f"an error that nobody retrieved: {world.loop.errors[0]}")
    if world.deployment.crashes:
        raise Violation(f"a process ended: {world.deployment.crashes[0]!r}") from world.deployment.crashes[0]
    demand(not world.broken, "; ".join(world.broken))
    logs, votes = Logs(world), world.vote_views
    _check_losses(world, logs)
    for partition in logs:
        view = observe(world, described_view(votes, partition.number, set(world.kinds)))
        found = differing(view, described(partition.tally))
        demand(not found, f"votes/{partition.number}: view and fold differ: {found}")
        for contest, count in partition.counts.items():
            tally = partition.tally.contests.get(contest, ContestTally())
            where = f"{contest} in votes/{partition.number}"
            fence = partition.tally.fence
            demand(fence == count.fence, f"{where}: fence {fence}, counted plainly {count.fence}")
            check_fold(where, tally, count, voters_freed(world))
            check_sources(tally, [event for event in partition.events if is_of(event, contest)])
            _check_voids(world, where, contest, count)
            _check_periods(where, count)
            _check_allowances(world, where, votes, partition.number, contest, count)
            _check_close(where, contest, partition, tally)
    for partition in logs if world.shape.has_replays else ():
        check_other_votes(world, partition.number, partition.tally)
    check_catalogue(world)
    check_generations(world)
    for check_logs in (
        *(check_reports, _check_answers, _check_reads, check_patches, _check_clocks),
        *(_check_batches, _check_addresses, check_closings),
    ):
        check_logs(world, logs)
    _check_refusals(world)
    _check_purchases(world, logs)


def _check_losses(world: World, logs: Logs) -> None:
    """What the log lost after it was acknowledged is told exactly, and nothing else is excused: its answers go."""
    for lost in world.lost:
        partition = next(each for each in logs if each.number == lost.partition)
        told = {event for event in partition.events if isinstance(event, LogLost) and event.first == lost.first}
        if lost.folded is not None and lost.folded > lost.first:
            demand(any(event.end >= lost.folded for event in told), f"{lost.first} to {lost.folded}: told {told}")
        events: list[Any] = [vote_codec.decode(record.value) for record in lost.records]
        for event in told:
            before = folded(events[: event.end], [record.timestamp_ms for record in lost.records])
            votes = {
                contest: sum(
                    vote.offset >= lost.first for its in tally.voters.values() for vote in its.votes.values()
                )
                for contest, tally in before.contests.items()
            }
            expected = {contest: count for contest, count in votes.items() if count}
            demand(dict(event.votes) == expected, f"lost {expected}, told {event}")
        names = {
            (event.contest, event.voter, event.vote_id)
            for event in events[lost.first :]
            if isinstance(event, VoteCast | VoteRemoved)
        }
        accepted = {
            (event.contest, event.voter, event.vote_id, event.accepted_at)
            for event in events[lost.first :]
            if isinstance(event, VoteCast)
        }
        world.answers[:] = [
            its
            for its in world.answers
            if its.name not in names or (its.began_at > lost.at and _accepted(its) not in accepted)
        ]
        world.reads[:] = [its for its in world.reads if its.name not in names]


def _accepted(answer: Answer) -> tuple[str, str, str, int] | None:
    """Return name and time of an accepted vote: a view that has not noticed a loss repeats the former answer."""
    return (*answer.name, answer.result.terms.accepted_at) if isinstance(answer.result, Accepted) else None


def voters_freed(world: World) -> set[str]:
    """Return voters whose removals were lost: until that was noticed, they were given the allowance again."""
    events = (vote_codec.decode(record.value) for lost in world.lost for record in lost.records[lost.first :])
    return {event.voter for event in events if isinstance(event, VoteRemoved | VoteVoided)}


def check_fold(where: str, contest: ContestTally, count: PlainCount, freed: Collection[str] = ()) -> None:
    """Removed and replaced votes left no trace, and nothing admitted was too late or too much.

    Votes of voters that are `freed` can be too much.
    """
    ids = Counter(vote.status for vote in count.votes.values())
    demand(contest.ids == ids, f"{where}: ids {contest.ids}, counted plainly {ids}")
    overruled = {voter for (voter, _), vote in count.votes.items() if vote.status is VoteStatus.OVERRULED}
    demand(overruled <= {*freed}, f"{where}: a vote was overruled")
    demand(not ids[VoteStatus.LATE], f"{where}: a vote came after the close")
    figures = {key: its for key, its in contest.figures.items() if its != VoteSums()}
    demand(figures == count.figures(), f"{where}: figures {figures}, counted plainly {count.figures()}")
    ratings = {
        name: (its.count, its.total, {sub: sums for sub, sums in its.sub_ratings.items() if sums[0]})
        for name, its in contest.ratings.items()
        if its.count
    }
    demand(ratings == count.ratings(), f"{where}: ratings {ratings}, counted plainly {count.ratings()}")


def check_sources(contest: ContestTally, log: list[Event]) -> None:
    """A source's latest report of an id is counted or held, and a report id counts once."""
    latest = plainly(log).reported
    reported = {
        (source, mapped): (kept.held.get(mapped) or kept.figures[mapped]).count
        for source, kept in contest.sources.items()
        for mapped in kept.figures
    }
    demand(reported == latest, f"reported {latest}, held {reported}")


def _check_answers(world: World, logs: Logs) -> None:
    """What was answered 201 counts, once; what was refused is not in the log; what was removed does not count."""
    attempts, unwanted = defaultdict[Name, list[Answer]](list), world.unwanted
    for answer in world.answers:
        partition = logs.of(answer.command.voter)
        if answer.is_removed:
            _check_removed(answer, partition.counts[answer.command.contest], partition.events)
        if answer.is_cast:
            attempts[answer.name].append(answer)
    freed = voters_freed(world)
    for name, answers in attempts.items():
        vote, events = logs.vote(name), logs.of(name[1]).events
        if vote is not None and vote.status is VoteStatus.OVERRULED and name[1] in freed:
            continue
        for answer in answers:
            if isinstance(answer.result, Accepted):
                _check_success(name, answer, vote, name in unwanted, events)
        if all(answer.was_refused for answer in answers):
            demand(vote is None or vote.cast is None, f"{name} was refused each time, and is in the log")


def _check_success(name: Name, answer: Answer, vote: Any, is_unwanted: bool, events: list[Event]) -> None:
    if vote is None:
        raise Violation(f"{name} was answered 201, and is not in the log")
    command = answer.command
    if vote.cast is not None and isinstance(command, CastVote):
        demand(vote.cast.content == command.content, f"{name} was answered 201 for two contents")
        demand(vote.cast.accepted_at == answer.result.terms.accepted_at, f"{name} was accepted at two times")
        demand(vote.cast.receipt == answer.result.receipt, f"{name} was given another receipt than its record has")
    stands = vote.status in (VoteStatus.COUNTED, VoteStatus.REPLACED, VoteStatus.VOIDED)
    demand(
        stands or (vote.status is VoteStatus.REMOVED and is_unwanted),
        f"{name} was answered 201: {vote.status.name}",
    )
    offset = answer.result.offset
    found = events[offset] if 0 <= offset < len(events) else None
    its = (found.contest, found.voter, found.vote_id) if isinstance(found, VoteCast | VoteRemoved) else None
    demand(its == name, f"{name} was answered 201 at {offset}, where {found} is")


def _check_reads(world: World, logs: Logs) -> None:
    """A vote whose status a voter was told is recorded; after its 201 no answer says that there is none."""
    accepted = first_accepted(world.answers)
    for read in world.reads:
        if isinstance(read.result, VoteStatusAnswer):
            text = f"{read.name} was said to be {read.result.status}, and is not in the log"
            demand(logs.vote(read.name) is not None, text)
        elif isinstance(read.result, NotFound) and read.name[0] not in world.deleted:
            is_new = accepted.get(read.name, read.began_at) >= read.began_at
            demand(is_new, f"{read.name} was answered 201, and 404 when its voter asked for it")


def _check_removed(answer: Answer, count: PlainCount, events: list[Event]) -> None:
    """A vote that was removed does not count and will not come; a refund may wait for a reopening."""
    if answer.voided_at is not None and not answer.is_refund:
        later = [event for event in events[answer.voided_at :] if isinstance(event, VoteRestored | VoteRemoved)]
        its = [event for event in later if (event.contest, event.voter, event.vote_id) == answer.name]
        while its and isinstance(its[-1], VoteRestored):
            its.pop()  # after the removal
        demand(
            any(isinstance(event, VoteRestored) for event in its),
            f"{answer.name} was voided, and then removed by its voter",
        )
    vote = count.votes.get(answer.name[1:])
    waiting = {(late.voter, late.vote_id) for late in count.waiting if isinstance(late, VoteRemoved)}
    waits = answer.is_refund and answer.name[1:] in waiting
    counts = vote is not None and vote.status in USING
    demand(waits or not counts, f"{answer.name} was answered 204, and counts or may yet")
    demand(waits or vote is not None, f"{answer.name} was answered 204, and may still come")


def _check_voids(world: World, where: str, contest: str, count: PlainCount) -> None:
    """Only an operator voids a vote, and what was restored no late copy voids again."""
    for (voter, vote_id), vote in count.votes.items():
        if vote.status is VoteStatus.VOIDED:
            void = vote.voids[-1], contest, voter, vote_id
            demand(void in world.voided, f"{where}: {void} is voided, and nobody asked for it")


def _check_periods(where: str, count: PlainCount) -> None:
    """Allowance periods of a voter follow each other, in the order of acceptance."""
    free: dict[str, list[VoteCast]] = {}
    for vote in count.votes.values():
        if vote.cast is not None and vote.cast.source == "c-free":
            free.setdefault(vote.cast.voter, []).append(vote.cast)
    for casts in free.values():
        epoch = 0
        for cast in sorted(casts, key=lambda cast: (cast.incarnation, cast.accepted_at, cast.epoch)):
            demand(cast.epoch >= epoch, f"{where}: an earlier period than {epoch}: {cast}")
            epoch = cast.epoch


def _check_allowances(
    world: World, where: str, votes: VoteViews, number: int, contest: str, count: PlainCount
) -> None:
    """The ledger holds against a voter what the log holds: no reservation leaks."""
    held: Counter[Sum] = Counter()
    used: Counter[Sum] = Counter()
    for voter in count.anonymous:
        for row in observe(world, votes.allowance(number, contest, voter)).used:
            held[voter, row.source, row.epoch, row.participant] += row.votes
    for (voter, source, epoch, participant), its in count.used().items():
        # the sums of periods that are over are one
        kept = 0 if source == "c-free" and epoch < count.latest_epoch(voter) - 1 else epoch
        used[voter, source, kept, participant] += its
    demand(+held == +used, f"{where}: used up {+held}, in the log {+used}")


def _check_close(where: str, contest: str, partition: Partition, tally: ContestTally) -> None:
    """Nothing after the close marker in force has changed a count."""
    if tally.closed > 0:
        mark = partition.events.index(ContestClosed(contest, tally.closed))
        then = folded(partition.events[:mark], partition.times_ms).contests.get(contest, ContestTally())
        same = then.figures == tally.figures and then.ids == tally.ids
        demand(same, f"{where}: the result changed after the close")


def _check_purchases(world: World, logs: Logs) -> None:
    """The votes of a recorded purchase count once, unless it is refunded or refused."""
    found: dict[str, list[Any]] = defaultdict(list)
    for partition in logs:
        for contest, count in partition.counts.items():
            for (voter, _), vote in count.votes.items():
                if voter not in VOTING and vote.cast is not None:
                    found[contest].append(vote)
    cast = Counter[str]()
    for bought in world.bought:
        if bought.key is None:
            continue
        purchase = observe(world, world.purchase_views.get(ACCOUNT, bought.key))
        demand(purchase is not None, f"{bought} was recorded, and is gone")
        if bought.is_refunded:
            demand(purchase.status == "refunded", f"{bought} was refunded: {purchase.status}")
        elif purchase.status in ("cast", "uncounted"):
            cast[bought.contest] += 1
        else:
            demand(purchase.status == "refused", f"{bought} is {purchase.status}")
            code = purchase.refusal and purchase.refusal.code
            demand(code not in UNDECIDED, f"{bought} is refused by {code}")
    for contest in world.kinds.keys() - world.deleted:  # a refund removes no vote of a deleted contest
        stand = sum(vote.status in USING for vote in found[contest])
        waits = sum(len(partition.counts[contest].waiting) for partition in logs)
        demand(
            stand - waits <= cast[contest] <= stand,
            f"{contest}: {cast[contest]} purchases are cast, {stand} of their votes count, {waits} changes wait",
        )


def _check_clocks(world: World, logs: Logs) -> None:
    """What is asked for after an answer is accepted later, by the partition's clock, while its gate is open."""
    ended = first_accepted(world.answers)
    steps: list[tuple[float, int, tuple[int, int], int, Name]] = []
    for name, at in first_began(world.answers).items():
        if (cast := logs.cast(name)) is not None:
            gate = logs.of(cast.voter).number, cast.incarnation
            steps.append((at, 1, gate, cast.accepted_at, name))
            if name in ended:
                steps.append((ended[name], 0, gate, cast.accepted_at, name))
    latest: dict[tuple[int, int], int] = {}
    for _, is_begin, gate, accepted_at, name in sorted(steps):
        if is_begin:
            demand(
                accepted_at > latest.get(gate, 0), f"{name} was accepted before a vote that was answered before"
            )
        else:
            latest[gate] = max(accepted_at, latest.get(gate, 0))


def _check_batches(world: World, logs: Logs) -> None:
    """Votes of one request are recorded in their order."""
    if not world.is_alone:
        return
    tried = Counter(answer.name for answer in world.answers if answer.is_cast)
    for batch in world.batches:
        casts = [cast for name in batch if tried[name] == 1 and (cast := logs.cast(name)) is not None]
        offsets = [logs.of(cast.voter).events.index(cast) for cast in casts]
        demand(offsets == sorted(offsets), f"votes of one request are recorded in another order: {batch}")


def _check_addresses(world: World, logs: Logs) -> None:
    """No more votes of an address count than its limit allows, as long as Valkey and its clock are well."""
    limit = world.address_limit
    if not world.is_alone or limit is None or limit < 0 or world.has_failed:
        return
    used: Counter[tuple[str, str, str]] = Counter()
    for partition in logs:
        for contest, count in partition.counts.items():
            for vote in count.counting():
                if vote.cast is not None and vote.cast.address is not None:
                    for participant, votes in vote.cast.choices:
                        used[contest, participant, vote.cast.address] += votes
    over = {name: votes for name, votes in used.items() if votes > limit}
    demand(not over, f"addresses have more votes than {limit}: {over}")


def _check_refusals(world: World) -> None:
    """No voter is over a limit who never asked for more, where a later vote replaces an earlier one."""
    if not world.is_alone or world.changes:
        return
    asked: dict[tuple[str, str, str], list[Answer]] = defaultdict(list)
    for answer in world.answers:
        vote = answer.command
        if isinstance(vote, CastVote) and answer.is_cast and world.kinds[vote.contest] != "voteonly":
            asked[vote.contest, vote.voter, vote.source].append(answer)
    for answers in asked.values():
        for answer in answers:
            if isinstance(answer.result, LimitReached) and answer.result.scope is not LimitScope.IP:
                # what began while this request was under way may have been reserved before it
                meanwhile = [other.command for other in answers if other.began_at <= answer.ended_at]
                slots = {vote.participant or "" for vote in meanwhile if isinstance(vote, CastVote)}
                limit = answer.result.data["limit"]
                demand(len(slots) > limit, f"{answer.name} is refused, and {len(slots)} votes are within {limit}")
