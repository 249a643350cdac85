"""The clients: voters who repeat what is undecided, operators who change contests, reopen them and void votes."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

from libs.catalogue.resource_table import CONTESTS as CONTEST_ROW
from libs.catalogue.resource_table import PARTICIPANTS as PARTICIPANT_ROW
from libs.contracts.catalogue_events import Stored
from libs.contracts.codec import vote_codec
from libs.contracts.topics import catalogue_topic, votes_topic
from libs.contracts.vote_states import VoteName
from libs.projection.fencing import CLOCK_TOLERANCE_S
from libs.purchases.schemas import PurchaseForm, VotesForm
from libs.purchases.service import Recorded
from libs.tally.errors import LogUnavailable, NotFound, TallyError
from libs.tally.events import VoteRestored, VoteVoided
from libs.tally.vote_commands import CastVote, RemoveVote
from libs.tally.voter_ledger import VoteStatus
from libs.voting.protocol.shared_steps import Accepted, Removed
from tests.simulation.answers import Answer, Bought, Read
from tests.simulation.contests import PARTICIPANTS, PROBING, moment, participant_key, some_rules, some_vote
from tests.simulation.deployment import ACCOUNT, NAMESPACE, Gateway
from tests.simulation.observer import Observer
from tests.simulation.virtual_loop import BEGIN_S, SimulatedProcess
from tests.support.builders import pseudonym
from tests.support.vote_views import VoteViews

if TYPE_CHECKING:
    from tests.simulation.world import World

TRY_AGAIN: Final = frozenset({"log_unavailable", "views_unavailable", "ledger_catching_up", "overloaded"})
"""Codes of answers with status 503."""

Work = Callable[[Gateway], Awaitable[Any]]


class Deleted:
    """The answer to a deletion."""


def vote(world: "World", name: str, rng: Random) -> None:
    """Vote, sometimes twice at once, and sometimes take it back."""
    contest = world.some_contest(rng)
    command = some_vote(rng, contest, world.kinds[contest], world.streams["shape"].choice([2, 6]))
    start(world, name, rng, command)
    for copy in range(rng.choice([0, 0, 0, 1, 2])):
        world.loop.call_later(rng.choice([0.0, rng.uniform(0, 1.0)]), start, world, f"{name}.{copy}", rng, command)
    later = rng.choice([rng.uniform(0.0, 0.1), rng.uniform(0.0, 2.5)])
    if command.source == "c-free" and rng.random() < 0.3:
        removal = RemoveVote(contest, command.voter, command.vote_id)
        for copy in range(rng.choice([1, 1, 2])):
            world.loop.call_later(later, start, world, f"{name}.removal{copy}", rng, removal)
    elif command.source == "c-paid" and rng.random() < 0.3:
        world.loop.call_later(later, start, world, f"{name}.refund", rng, command, True)


def start(
    world: "World",
    name: str,
    rng: Random,
    command: CastVote | RemoveVote,
    refund: bool = False,
    gateway: Gateway | None = None,
    tries: int = 0,
) -> "asyncio.Task[Any]":
    """Start a request; its task returns the last answer. By default gateways and tries are random."""
    client = world.loop.process(name)
    return run(world, client, _request(world, client, Random(rng.random()), command, refund, gateway, tries))


def run(world: "World", client: SimulatedProcess, steps: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
    """Start what a client does; the schedule settles when all of it is done."""
    world.open_requests += 1

    def ended(task: "asyncio.Task[Any]") -> None:
        world.open_requests -= 1
        task.result()

    task = world.loop.start(client, steps)
    task.add_done_callback(ended)
    return task


async def _request(
    world: "World",
    client: SimulatedProcess,
    rng: Random,
    command: CastVote | RemoveVote,
    refund: bool,
    chosen: Gateway | None,
    tries: int,
) -> Any:
    """Send a request until it is decided, or give it up."""

    async def work(gateway: Gateway) -> Any:
        assert gateway.voting is not None
        if refund:
            assert isinstance(command, CastVote)
            await gateway.voting.refund(ACCOUNT, command)
            return Removed(0, None)
        if isinstance(command, CastVote):
            [outcome] = await gateway.voting.cast(ACCOUNT, [command])
            return outcome
        return await gateway.voting.remove(ACCOUNT, command)

    what = "refunds" if refund else "casts" if isinstance(command, CastVote) else "removes"
    answer: Answer | None = None
    for _ in range(tries or rng.choice([1, 2, 4])):
        answer = Answer(command, refund, world.loop.now)
        if isinstance(command, RemoveVote) and world.is_alone:
            answer.voided_at = await _voided_at(world, command)
        world.answers.append(answer)
        gateway = chosen or rng.choice(world.gateways)
        world.note(f"{what} {command.vote_id} of {command.voter} in {command.contest} at {gateway.name}")
        answer.result = await world.ask(client, gateway, work)
        world.note(f"is answered {described(answer.result)}")
        answer.ended_at = world.loop.now
        if answer.result is not None and getattr(answer.result, "code", "") not in TRY_AGAIN:
            break
        await asyncio.sleep(rng.uniform(0.05, 1.0))
    return answer and answer.result


async def _voided_at(world: "World", command: RemoveVote) -> int | None:
    views = VoteViews(Observer(world), NAMESPACE, world.partitions)
    partition = votes_topic(NAMESPACE, world.partitions).partition_of(command.voter)
    name = VoteName(command.contest, command.voter, command.vote_id)
    _, [state] = await views.lookups(partition, [name])
    view = await views.state(partition)
    return view.position.offset if state.status is VoteStatus.VOIDED and not view.pending else None


def probe(world: "World") -> None:
    """Vote in each contest and partition by somebody new, once all has settled: the answer says yes or no."""
    topic, found = votes_topic(NAMESPACE, world.partitions), dict[int, str]()
    for name in PROBING:
        found.setdefault(topic.partition_of(pseudonym(name)), name)
    for contest in world.kinds:
        for number, voter in found.items():
            name = f"probe of {contest} in {number}"
            vote = some_vote(world.streams[name], contest, world.kinds[contest], 1, [(voter, False)])
            start(world, name, world.streams[name], vote, tries=2).add_done_callback(partial(_probed, world, name))


def _probed(world: "World", name: str, task: "asyncio.Task[Any]") -> None:
    result = task.result()
    if isinstance(result, Accepted) and world.is_alone:
        processes = [server.process for server in world.deployment.servers]
        processes += [projector.process for projector in world.projectors]
        clocks = [world.clock_us(process) for process in processes]
        if result.terms.accepted_at > max(clocks) + CLOCK_TOLERANCE_S * 1_000_000:
            world.broken.append(f"the {name} is accepted at {result.terms.accepted_at}, when it is {max(clocks)}")
    if result is None or getattr(result, "code", "") in TRY_AGAIN:
        world.broken.append(f"the {name}, after all has settled, is answered {described(result)}")


def batch(world: "World", name: str, rng: Random) -> None:
    """Send several votes of one voter in one request, once."""
    contest = world.some_contest(rng)
    first, *others = [some_vote(rng, contest, world.kinds[contest], 6) for _ in range(rng.choice([2, 3]))]
    others = [vote._replace(voter=first.voter, anonymous=first.anonymous) for vote in others]
    cast_together(world, name, rng, [first, *others])


def cast_together(world: "World", name: str, rng: Random, commands: list[CastVote]) -> None:
    """Send votes of one voter in one request."""
    client = world.loop.process(name)
    world.batches.append([(command.contest, command.voter, command.vote_id) for command in commands])

    async def work(gateway: Gateway) -> Any:
        assert gateway.voting is not None
        return await gateway.voting.cast(ACCOUNT, commands)

    async def steps() -> None:
        answers = [Answer(command, False, world.loop.now) for command in commands]
        world.answers += answers
        gateway = rng.choice(world.gateways)
        world.note(f"casts {[command.vote_id for command in commands]} of {commands[0].voter} at {gateway.name}")
        results = await world.ask(client, gateway, work)
        world.note(f"is answered {results}"[:300])
        if isinstance(results, Exception):
            raise results
        if results is not None:
            for answer, result in zip(answers, results, strict=True):
                answer.result, answer.ended_at = result, world.loop.now

    run(world, client, steps())


def ask(world: "World", name: str, rng: Random) -> None:
    """Ask for a vote that was sent, or for its voter's allowance."""
    sent = [answer for answer in world.answers if answer.is_cast]
    if not sent:
        return
    client, (contest, voter, vote_id) = world.loop.process(name), rng.choice(sent).name

    async def work(gateway: Gateway) -> Any:
        return await gateway.reads.status(ACCOUNT, contest, vote_id, voter, None)

    async def ask_for_allowance(gateway: Gateway) -> Any:
        return await gateway.reads.allowance(ACCOUNT, contest, voter, None)

    async def steps() -> None:
        for _ in range(rng.choice([1, 2, 4])):
            began = world.loop.now
            world.note(f"asks for {vote_id} of {voter} in {contest}")
            result = await world.ask(client, rng.choice(world.gateways), work)
            world.note(f"is answered {described(result)}")
            world.reads.append(Read((contest, voter, vote_id), began, result))
            await asyncio.sleep(rng.uniform(0.02, 0.6))
        result = await world.ask(client, rng.choice(world.gateways), ask_for_allowance)
        if isinstance(result, Exception) and not isinstance(result, TallyError):
            raise result

    run(world, client, steps())


def change(world: "World", name: str, rng: Random) -> None:
    """Change a contest's rules or its end, or a participant's status."""
    contest = world.some_contest(rng)
    if rng.random() < (0.3 if world.has_purchases else 0.75):
        rules = some_rules(rng)
        if rng.random() < 0.3:
            rules["end"] = moment(world.loop.now + rng.uniform(0.0, 3.0))
        row, key = CONTEST_ROW, contest
        patch: dict[str, Any] = {"contest_config": rules}
    else:
        row, key = PARTICIPANT_ROW, participant_key(contest, rng.choice(PARTICIPANTS))
        patch = {"status": rng.choice(["approved", "rejected"])}
    operate(world, name, rng, contest, lambda at: at.records.patch(row, ACCOUNT, key, patch))


def reopen(world: "World", name: str, rng: Random) -> None:
    contest = world.some_contest(rng)
    end = round((BEGIN_S + world.loop.now + rng.uniform(1.0, 20.0)) * 1_000_000)
    operate(world, name, rng, contest, lambda at: at.reopener.reopen(ACCOUNT, contest, end))


def operate(
    world: "World",
    name: str,
    rng: Random,
    contest: str,
    work: Work,
    gateway: Gateway | None = None,
    tries: int = 1,
) -> "asyncio.Task[Any]":
    """Start an operator's request; its task returns the answer."""
    client = world.loop.process(name)

    async def steps() -> Any:
        for _ in range(tries):
            result = await world.ask(client, gateway or rng.choice(world.gateways), work)
            world.note(f"is answered {described(result)}")
            if getattr(result, "code", "") not in TRY_AGAIN:
                break
            await asyncio.sleep(0.1)
        if isinstance(result, Stored):
            world.changes.append((world.loop.now, contest, result.version))
            world.written[result.key] = max(result.version, world.written.get(result.key, 0))
        elif isinstance(result, Exception) and not isinstance(result, TallyError):
            raise result
        return result

    return run(world, client, steps())


def delete(world: "World", name: str, rng: Random, contest: str) -> "asyncio.Task[Any]":
    """Delete a contest; from the answer on no vote is accepted."""

    async def work(at: Gateway) -> Any:
        with suppress(NotFound):  # by an earlier try
            await at.records.delete(CONTEST_ROW, ACCOUNT, contest)
        return Deleted

    world.deleted.add(contest)

    async def steps() -> None:
        result = await operate(world, f"{name}: delete", rng, contest, work, None, 20)
        if result is Deleted:
            topic = catalogue_topic(NAMESPACE)
            log = world.deployment.brokers.partitions[topic.name, topic.partition_of(ACCOUNT)]
            [offset] = [each.offset for each in log.records if b'"RecordDeleted"' in each.value][:1]
            world.changes.append((world.loop.now, contest, offset))

    return run(world, world.loop.process(name), steps())


def read(world: "World", name: str, rng: Random, contest: str, gateway: Gateway | None = None) -> None:
    """Read a contest's record."""
    client = world.loop.process(name)

    async def steps() -> None:
        written = world.written.get(contest, 0)
        at = gateway or rng.choice(world.gateways)
        result = await world.ask(client, at, lambda at: at.records.get(CONTEST_ROW, ACCOUNT, contest))
        world.note(f"reads {contest} at {at.name}: {getattr(result, 'version', result)}")
        if isinstance(result, Stored) and result.version < written:
            world.broken.append(f"{contest} was read in version {result.version}, after {written} was answered")
        elif isinstance(result, NotFound):
            world.broken.append(f"{contest} was not found")

    run(world, client, steps())


def void(world: "World", name: str, rng: Random) -> None:
    """Void a vote by an operation, and perhaps restore it; records of both may be in the log twice."""
    client = world.loop.process(name)
    topic = votes_topic(NAMESPACE, world.partitions)
    cast = [answer for answer in world.answers if answer.is_cast and answer.command.vote_id.startswith("id")]
    if not cast:
        return
    contest, voter, vote_id = rng.choice(cast).name
    operation = f"void{rng.randrange(2)}"
    events = (
        VoteVoided(contest, voter, vote_id, operation, 0),
        VoteRestored(contest, voter, vote_id, operation, 0),
    )
    writer = world.deployment.writer(client)

    async def steps() -> None:
        for event in events[: rng.choice([1, 2])]:
            if isinstance(event, VoteVoided):
                world.voided.add((operation, contest, voter, vote_id))
            for _ in range(rng.choice([1, 2])):
                world.note(f"{event.type} {vote_id} of {voter} in {contest} by {operation}")
                try:
                    value, key = vote_codec.encode(event), voter.encode()
                    await writer.append(topic.name, topic.partition_of(voter), value, key)
                except LogUnavailable:
                    continue
            await asyncio.sleep(rng.uniform(0.0, 1.0))
            if rng.random() < 0.4:
                start(world, f"{name}.removal", rng, RemoveVote(contest, voter, vote_id))

    run(world, client, steps())


def purchase(world: "World", name: str, rng: Random) -> None:
    """Buy votes, and sometimes have the purchase refunded, also before it is recorded."""
    client, contest = world.loop.process(name), world.some_contest(rng)
    if world.kinds[contest] != "voteonly":
        return
    bought = Bought(name, contest, participant_key(contest, rng.choice(PARTICIPANTS)))
    world.bought.append(bought)
    form = PurchaseForm(
        user_id=rng.choice(["dora", "emil"]),
        purchase_token=name,
        type="vote",
        vote=VotesForm(
            contest_key=contest,
            participant_key=bought.participant,
            count=rng.choice([1, 1, 2]),
        ),
    )
    refunds = rng.choice([False, False, True])

    async def steps() -> None:
        works: list[Work] = [lambda at: at.purchases.record(ACCOUNT, form)]
        if refunds:
            bought.is_refunded = True
            works.insert(rng.randrange(2), lambda at: at.purchases.refund_token(ACCOUNT, name))
        for work in works:
            result: Any = None
            while result is None or getattr(result, "code", "") in TRY_AGAIN:
                world.note(f"buys {name} in {contest}" if work is works[-1] else f"refunds {name}")
                result = await world.ask(client, rng.choice(world.gateways), work)
                world.note(f"is answered {described(result)}")
                await asyncio.sleep(rng.uniform(0.05, 0.5))
            if isinstance(result, Recorded):
                bought.key = result.purchase.key

    run(world, client, steps())


def described(result: Any) -> str:
    if isinstance(result, Accepted):
        return f"201 at {result.partition}/{result.offset}, accepted {result.terms.accepted_at}"
    if isinstance(result, TallyError):
        return f"{type(result).__name__}: {result.message} ({result.cause})"
    return repr(result)[:150]
