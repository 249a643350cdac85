"""The clients: voters who repeat what is undecided, operators who change contests, reopen them and void votes."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

from libs.catalogue.resource_definition import Resource
from libs.catalogue.resource_table import CONTESTS as CONTEST_ROW
from libs.catalogue.resource_table import PARTICIPANTS as PARTICIPANT_ROW
from libs.contracts.catalogue_events import Stored
from libs.contracts.codec import vote_codec
from libs.contracts.vote_states import VoteName
from libs.projection.fencing import CLOCK_TOLERANCE_S
from libs.purchases.schemas import PurchaseForm, VotesForm
from libs.purchases.service import Recorded
from libs.tally.errors import LogUnavailable, NotFound, TallyError
from libs.tally.events import VoteRestored, VoteVoided
from libs.tally.vote_commands import CastVote, RemoveVote
from libs.tally.voter_ledger import VoteStatus
from libs.voting.protocol.shared_steps import Accepted, Removed
from tests.simulation.answers import TRY_AGAIN, Answer, Bought, Read, described, is_undecided
from tests.simulation.contests import PARTICIPANTS, PROBING, moment, participant_key, some_rules, some_vote
from tests.simulation.deployment import ACCOUNT, Gateway
from tests.simulation.virtual_loop import BEGIN_S, set_result
from tests.support.builders.contests import pseudonym

if TYPE_CHECKING:
    from tests.simulation.world import World

PATIENCE_S: Final = 12.0
"""Time after which a client gives up a request."""

Work = Callable[[Gateway], Awaitable[Any]]
Task = asyncio.Task[Any]


class Client:
    """Sends requests; `rng` decides what is random about them."""

    def __init__(self, world: "World", name: str, rng: Random) -> None:
        self.world = world
        self.name = name
        self.rng = rng
        self.process = world.loop.process(name)

    def other(self, suffix: str) -> "Client":
        """Return another client that draws from the same stream."""
        return Client(self.world, f"{self.name}{suffix}", self.rng)

    def later(self, delay_s: float, do: Callable[..., Any], *arguments: Any) -> None:
        self.world.loop.call_later(delay_s, do, *arguments)

    def run(self, steps: Coroutine[Any, Any, Any]) -> Task:
        """Start what a client does; the schedule settles when all of it is done."""
        self.world.open_requests += 1

        def ended(task: Task) -> None:
            self.world.open_requests -= 1
            task.result()

        task = self.world.loop.start(self.process, steps)
        task.add_done_callback(ended)
        return task

    async def ask(self, work: Work, what: str = "", gateway: Gateway | None = None) -> Any:
        """Return the result of a request, by default to any gateway; its error; or None after the patience."""
        world, gateway = self.world, gateway or self.rng.choice(self.world.gateways)
        answer: asyncio.Future[Any] = world.loop.create_future()
        if what:
            world.note(f"{what} at {gateway.name}")
        gateway.request(self.process, work, partial(set_result, answer))
        result = None
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                result = await answer
        if what:
            world.note(f"is answered {described(result)}")
        return without_defect(result)

    async def pause(self, least_s: float, most_s: float) -> None:
        await asyncio.sleep(self.rng.uniform(least_s, most_s))


def without_defect(result: Any) -> Any:
    """Return a result; raise an error that no code of the service expected."""
    if isinstance(result, Exception) and not isinstance(result, TallyError):
        raise result
    return result


def vote(client: Client) -> None:
    """Vote, sometimes twice at once, and sometimes take it back."""
    world, rng = client.world, client.rng
    contest = world.some_contest(rng)
    command = some_vote(rng, contest, world.kinds[contest], world.streams["shape"].choice([2, 6]))
    start(client, command)
    for copy in range(rng.choice([0, 0, 0, 1, 2])):
        client.later(rng.choice([0.0, rng.uniform(0, 1.0)]), start, client.other(f".{copy}"), command)
    later = rng.choice([rng.uniform(0.0, 0.1), rng.uniform(0.0, 2.5)])
    if command.source == "c-free" and rng.random() < 0.3:
        removal = RemoveVote(contest, command.voter, command.vote_id)
        for copy in range(rng.choice([1, 1, 2])):
            client.later(later, start, client.other(f".removal{copy}"), removal)
    elif command.source == "c-paid" and rng.random() < 0.3:
        client.later(later, start, client.other(".refund"), command, True)


def start(
    client: Client,
    command: CastVote | RemoveVote,
    is_refund: bool = False,
    gateway: Gateway | None = None,
    tries: int = 0,
) -> Task:
    """Start a request; its task returns the last answer. By default gateways and tries are random."""
    own = Client(client.world, client.name, Random(client.rng.random()))
    return own.run(_request(own, command, is_refund, gateway, tries))


async def _request(
    client: Client, command: CastVote | RemoveVote, is_refund: bool, gateway: Gateway | None, tries: int
) -> Any:
    """Send a request until it is decided, or give it up."""
    world, rng = client.world, client.rng

    async def work(at: Gateway) -> Any:
        assert at.voting is not None
        if isinstance(command, RemoveVote):
            return await at.voting.remove(ACCOUNT, command)
        if is_refund:
            await at.voting.refund(await at.voting.contests.get(ACCOUNT, command.contest), command)
            return Removed(0, None)
        [outcome] = await at.voting.cast(ACCOUNT, [command])
        return outcome

    what = "refunds" if is_refund else "casts" if isinstance(command, CastVote) else "removes"
    answer: Answer | None = None
    for _ in range(tries or rng.choice([1, 2, 4])):
        answer = Answer(command, is_refund, world.loop.now)
        if isinstance(command, RemoveVote) and world.is_alone:
            answer.voided_at = await _voided_at(world, command)
        world.answers.append(answer)
        about = f"{what} {command.vote_id} of {command.voter} in {command.contest}"
        answer.result = await client.ask(work, about, gateway)
        answer.ended_at = world.loop.now
        if not is_undecided(answer.result):
            break
        await client.pause(0.05, 1.0)
    return answer and answer.result


async def _voided_at(world: "World", command: RemoveVote) -> int | None:
    views, partition = world.vote_views, world.votes_topic.partition_of(command.voter)
    _, [state] = await views.lookups(partition, [VoteName(command.contest, command.voter, command.vote_id)])
    view = await views.state(partition)
    return view.position.offset if state.status is VoteStatus.VOIDED and not view.pending else None


def probe(world: "World") -> None:
    """Vote in each contest and partition by somebody new, once all has settled: the answer says yes or no."""
    found: dict[int, str] = {}
    for name in PROBING:
        found.setdefault(world.votes_topic.partition_of(pseudonym(name)), name)
    for contest in world.kinds:
        for number, voter in found.items():
            client = world.client(f"probe of {contest} in {number}")
            vote = some_vote(client.rng, contest, world.kinds[contest], 1, [(voter, False)])
            start(client, vote, tries=2).add_done_callback(partial(_probed, client))


def _probed(client: Client, task: Task) -> None:
    result, world = task.result(), client.world
    if isinstance(result, Accepted) and world.is_alone:
        processes = [server.process for server in world.deployment.servers]
        processes += [projector.process for projector in world.projectors]
        latest = max(world.clock_us(process) for process in processes)
        if result.terms.accepted_at > latest + CLOCK_TOLERANCE_S * 1_000_000:
            world.broken.append(
                f"the {client.name} is accepted at {result.terms.accepted_at}, when it is {latest}"
            )
    if is_undecided(result):
        world.broken.append(f"the {client.name}, after all has settled, is answered {described(result)}")


def batch(client: Client) -> None:
    """Send several votes of one voter in one request, once."""
    world, rng = client.world, client.rng
    contest = world.some_contest(rng)
    first, *others = [some_vote(rng, contest, world.kinds[contest], 6) for _ in range(rng.choice([2, 3]))]
    others = [vote._replace(voter=first.voter, anonymous=first.anonymous) for vote in others]
    cast_together(client, [first, *others])


def cast_together(client: Client, commands: list[CastVote]) -> None:
    """Send votes of one voter in one request."""
    world = client.world
    world.batches.append([(command.contest, command.voter, command.vote_id) for command in commands])

    async def work(gateway: Gateway) -> Any:
        assert gateway.voting is not None
        return await gateway.voting.cast(ACCOUNT, commands)

    async def steps() -> None:
        answers = [Answer(command, False, world.loop.now) for command in commands]
        world.answers += answers
        about = f"casts {[command.vote_id for command in commands]} of {commands[0].voter}"
        results = await client.ask(work, about)
        if results is not None:
            for answer, result in zip(answers, results, strict=True):
                answer.result, answer.ended_at = without_defect(result), world.loop.now

    client.run(steps())


def ask(client: Client) -> None:
    """Ask for a vote that was sent, or for its voter's allowance."""
    world, rng = client.world, client.rng
    sent = [answer for answer in world.answers if answer.is_cast]
    if not sent:
        return
    contest, voter, vote_id = rng.choice(sent).name

    async def steps() -> None:
        for _ in range(rng.choice([1, 2, 4])):
            began = world.loop.now
            result = await client.ask(
                lambda at: at.reads.status(ACCOUNT, contest, vote_id, voter, None),
                f"asks for {vote_id} of {voter} in {contest}",
            )
            world.reads.append(Read((contest, voter, vote_id), began, result))
            await client.pause(0.02, 0.6)
        await client.ask(lambda at: at.reads.allowance(ACCOUNT, contest, voter, None))

    client.run(steps())


def change(client: Client) -> None:
    """Change a contest's rules or its end, or a participant's status."""
    world, rng = client.world, client.rng
    contest = world.some_contest(rng)
    if rng.random() < (0.3 if world.shape.has_purchases else 0.75):
        rules = some_rules(rng)
        if rng.random() < 0.3:
            rules["end"] = moment(world.loop.now + rng.uniform(0.0, 3.0))
        row: Resource = CONTEST_ROW
        key = contest
        patch: dict[str, Any] = {"contest_config": rules}
    else:
        row, key = PARTICIPANT_ROW, participant_key(contest, rng.choice(PARTICIPANTS))
        patch = {"status": rng.choice(["approved", "rejected"])}
    operate(client, contest, lambda at: at.records.patch(row, ACCOUNT, key, patch))


def reopen(client: Client) -> None:
    contest = client.world.some_contest(client.rng)
    reopen_for(client, contest, client.rng.uniform(1.0, 20.0))


def reopen_for(client: Client, contest: str, seconds: float) -> Task:
    end = round((BEGIN_S + client.world.loop.now + seconds) * 1_000_000)
    return operate(client, contest, lambda at: at.reopener.reopen(ACCOUNT, contest, end))


def operate(client: Client, contest: str, work: Work, gateway: Gateway | None = None, tries: int = 1) -> Task:
    """Start an operator's request; its task returns the answer."""
    world = client.world

    async def steps() -> Any:
        for _ in range(tries):
            result = await client.ask(work, f"changes {contest}", gateway)
            if getattr(result, "code", "") not in TRY_AGAIN:
                break
            await asyncio.sleep(0.1)
        if isinstance(result, Stored):
            world.changes.append((world.loop.now, contest, result.version))
            world.written[result.key] = max(result.version, world.written.get(result.key, 0))
        return result

    return client.run(steps())


def delete(client: Client, contest: str) -> Task:
    """Delete a contest; from the answer on no vote is accepted."""
    world, deleted = client.world, object()

    async def work(at: Gateway) -> Any:
        with suppress(NotFound):  # by an earlier try
            await at.records.delete(CONTEST_ROW, ACCOUNT, contest)
        return deleted

    world.deleted.add(contest)

    async def steps() -> None:
        if await operate(client.other(": delete"), contest, work, None, 20) is deleted:
            log = world.deployment.log(world.catalogue_topic, world.catalogue_topic.partition_of(ACCOUNT))
            [offset] = [each.offset for each in log.records if b'"RecordDeleted"' in each.value][:1]
            world.changes.append((world.loop.now, contest, offset))

    return client.run(steps())


def read(client: Client, contest: str, gateway: Gateway) -> None:
    """Read a contest's record."""
    world = client.world

    async def steps() -> None:
        written = world.written.get(contest, 0)
        result = await client.ask(
            lambda at: at.records.get(CONTEST_ROW, ACCOUNT, contest), f"reads {contest}", gateway
        )
        if isinstance(result, Stored) and result.version < written:
            world.broken.append(f"{contest} was read in version {result.version}, after {written} was answered")
        elif isinstance(result, NotFound):
            world.broken.append(f"{contest} was not found")

    client.run(steps())


def void(client: Client) -> None:
    """Void a vote by an operation, and perhaps restore it; records of both may be in the log twice."""
    world, rng, topic = client.world, client.rng, client.world.votes_topic
    cast = [answer for answer in world.answers if answer.is_cast and answer.command.vote_id.startswith("id")]
    if not cast:
        return
    contest, voter, vote_id = rng.choice(cast).name
    operation = f"void{rng.randrange(2)}"
    writer = world.deployment.writer(client.process)

    async def steps() -> None:
        for kind in (VoteVoided, VoteRestored)[: rng.choice([1, 2])]:
            event = kind(contest, voter, vote_id, operation, 0)
            if isinstance(event, VoteVoided):
                world.voided.add((operation, contest, voter, vote_id))
            for _ in range(rng.choice([1, 2])):
                world.note(f"{event.type} {vote_id} of {voter} in {contest} by {operation}")
                with suppress(LogUnavailable):
                    value, key = vote_codec.encode(event), voter.encode()
                    await writer.append(topic.name, topic.partition_of(voter), value, key)
            await client.pause(0.0, 1.0)
            if rng.random() < 0.4:
                start(client.other(".removal"), RemoveVote(contest, voter, vote_id))

    client.run(steps())


def purchase(client: Client) -> None:
    """Buy votes, and sometimes have the purchase refunded, also before it is recorded."""
    world, rng, name = client.world, client.rng, client.name
    contest = world.some_contest(rng)
    if world.kinds[contest] != "voteonly":
        return
    bought = Bought(name, contest, participant_key(contest, rng.choice(PARTICIPANTS)))
    world.bought.append(bought)
    user, count = rng.choice(["dora", "emil"]), rng.choice([1, 1, 2])
    votes = VotesForm(contest_key=contest, participant_key=bought.participant, count=count)
    form = PurchaseForm(user_id=user, purchase_token=name, type="vote", vote=votes)
    refunds = rng.choice([False, False, True])

    async def steps() -> None:
        works: list[tuple[str, Work]] = [("buys", lambda at: at.purchases.record(ACCOUNT, form))]
        if refunds:
            bought.is_refunded = True
            works.insert(rng.randrange(2), ("refunds", lambda at: at.purchases.refund_token(ACCOUNT, name)))
        for what, work in works:
            result: Any = None
            while is_undecided(result):
                result = await client.ask(work, f"{what} {name} in {contest}")
                await client.pause(0.05, 0.5)
            if isinstance(result, Recorded):
                bought.key = result.purchase.key

    client.run(steps())
