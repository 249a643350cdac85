"""Contests end by themselves, wherever a projector was interrupted: what was accepted counts, and nothing more."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from libs.casting.attempts import Accepted
from libs.catalogue.closing import closed, closing_of
from libs.catalogue.contests import sources_of
from libs.catalogue.errors import NotClosed
from libs.catalogue.resources import CONTESTS, PARTICIPANTS, VOTE_SOURCES
from libs.catalogue.sources import source_key
from libs.catalogue.writing import Request
from libs.contracts.catalogue import ContestClosing, OutcomeKind, catalogue_codec
from libs.contracts.problems import ValidationFailed
from libs.tally.admission import Answer, Granted, Shut, cast_of
from libs.tally.admission import Request as Reservation
from libs.tally.contest import Contest, Phase
from libs.tally.errors import ContestFinal, ContestNotRunning, timestamp
from libs.tally.events import ContestClosed, ContestReopened, Event
from libs.tally.rules import Selection, judge
from services.operations.stack.servers import Servers
from services.projector.closing import ClosingManager
from tests.services.projector.world import ACCOUNT, PARTITIONS, SECOND, World, open_world
from tests.support.builders import a_report, a_vote
from tests.support.eventually import eventually


@pytest.fixture(scope="module")
async def world(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """With a projector that runs."""
    namespace, storage = f"t{uuid.uuid4().hex[:8]}", tmp_path_factory.mktemp("objects")
    kafka, valkey = servers.addresses.kafka, servers.addresses.valkey
    async with open_world(kafka, valkey, namespace, storage) as world, world.projecting():
        yield world


@pytest.fixture
async def own(kafka: str, valkey_address: str, namespace: str, tmp_path: Path) -> AsyncIterator[World]:
    """Of this test alone, whose projector runs when the test says so."""
    async with open_world(kafka, valkey_address, namespace, tmp_path) as world:
        yield world


async def vote_until_refused(world: World, contest: str) -> int:
    """Voters without a pause; how many were accepted."""
    accepted = 0
    while any(votes := await asyncio.gather(*(world.vote(contest) for _ in range(8)))):
        accepted += sum(votes)
    return accepted


async def decide(world: World, contest: str) -> ContestClosing:
    """What a manager writes first, as of now."""
    config = await world.catalogue.views.contest_config(ACCOUNT, contest)
    found = await world.read(contest)
    assert config.contest is not None
    document = closed(config.contest.document, found, sources_of(config), found.end or 0)
    return ContestClosing(
        account=ACCOUNT,
        command_id=Request.once().command_id,
        at=world.catalogue.writer.now(),
        contest=contest,
        record=orjson.dumps(document).decode(),
        expected_config=found.version,
    )


async def source(world: World, contest: str, name: str, **members: Any) -> None:
    await world.catalogue.engine.put(VOTE_SOURCES, ACCOUNT, source_key(contest, name), members, parent=contest)


async def test_a_contest_closes_at_its_end_with_all_that_was_accepted(world: World) -> None:
    contest = await world.contest(end=await world.now() + 2 * SECOND)
    accepted = await vote_until_refused(world, contest)
    assert accepted > 0
    await world.closes(contest)
    assert await world.counted(contest) == (accepted, 0)
    found = await world.read(contest)
    assert (found.closed, found.phase(await world.now())) == (1, Phase.FINISHED)
    await eventually(lambda: settled(world, contest))
    assert len(await world.marks(contest)) == PARTITIONS


async def test_a_vote_one_millisecond_before_the_end_counts_and_one_at_the_end_does_not(own: World) -> None:
    """However late it is folded."""
    async with own.projecting():
        end = await own.now() + 3600 * SECOND
        contest = await own.contest(end)
    await own.set_clocks(end - 1000)
    before = await own.cast(contest)
    await own.set_clocks(end)
    at_the_end = await own.cast(contest)
    assert isinstance(before, Accepted)
    assert before.accepted_at == end - 1000
    assert isinstance(at_the_end, ContestNotRunning)
    async with own.projecting():
        await own.catalogue.engine.patch(
            CONTESTS, ACCOUNT, contest, {"contest_config": {"end": timestamp(end - 3600 * SECOND)}}
        )
        await own.closes(contest)
        assert await own.counted(contest) == (1, 0)


async def test_a_contest_without_an_end_stays_open_and_a_later_end_is_waited_for(world: World) -> None:
    endless, moved = await world.contest(end=None), await world.contest(end=await world.now() + SECOND)
    later = timestamp(await world.now() + 3600 * SECOND)
    await world.catalogue.engine.patch(CONTESTS, ACCOUNT, moved, {"contest_config": {"end": later}})
    ended = await world.contest(end=await world.now() + SECOND)
    await world.closes(ended)
    for contest in (endless, moved):
        assert (await world.read(contest)).closed == 0
        assert await world.vote(contest)


async def test_another_projector_goes_on_where_one_was_killed(own: World) -> None:
    """After each step: the decision, then a mark in each partition. Or twice each, by two that were killed."""
    crashes = [(steps, times) for steps in range(PARTITIONS + 2) for times in (1, 2)]
    async with own.projecting():
        end = await own.now() + 2 * SECOND
        contests = [await own.contest(end) for _ in crashes]
        for contest in contests:
            assert await own.vote(contest)
        decisions = [await decide(own, contest) for contest in contests]
    await eventually(lambda: has_passed(own, end))
    log, topic = own.catalogue.log, own.catalogue.topic
    for contest, decision, (steps, times) in zip(contests, decisions, crashes, strict=True):
        for _ in range(times if steps else 0):
            await log.append(topic.name, topic.partition_of(ACCOUNT), catalogue_codec.encode(decision))
            for partition in range(steps - 1):
                await own.append(partition, ContestClosed(contest, 1))
    async with own.projecting():
        for contest in contests:
            await own.closes(contest)
            await eventually(lambda contest=contest: settled(own, contest))  # type: ignore[misc]
            assert await own.counted(contest) == (1, 0)
            closing = closing_of((await own.catalogue.engine.get(CONTESTS, ACCOUNT, contest)).document)
            assert closing is not None
            assert closing.seq == 1
            assert set(closing.approved) == {f"{contest}-p0", f"{contest}-p1"}


async def admit(world: World, contest: str) -> tuple[int, Event]:
    """A vote that is admitted and not recorded yet: its partition, and its record."""

    async def granted() -> Granted | None:
        answer = await ask(world, await world.read(contest))
        return answer if isinstance(answer, Granted) else None

    command = a_vote(f"{contest}-p0", contest=contest, voter="slow", vote_id="slow")
    grant = await eventually(granted)
    assert grant is not None
    return world.topic.partition_of(command.voter), cast_of(command, grant, "receipt")


async def test_a_mark_waits_for_what_was_admitted_before_the_end(own: World) -> None:
    async with own.projecting(produce_deadline_ms=60_000):
        contest = await own.contest(end=await own.now() + 2 * SECOND)
        partition, record = await admit(own, contest)
        others = [other for other in range(PARTITIONS) if other != partition]
        await eventually(lambda: are_closed(own, contest, others), deadline_s=20)
        assert (await own.votes.closing(partition, contest)).closed == 0
        await own.append(partition, record)
        await own.closes(contest)
        assert await own.counted(contest) == (1, 0)


async def are_closed(world: World, contest: str, partitions: Sequence[int]) -> bool:
    return all([(await world.votes.closing(partition, contest)).closed == 1 for partition in partitions])


async def test_what_is_never_recorded_is_fenced_off_and_holds_up_no_closing(world: World) -> None:
    contest = await world.contest(end=await world.now() + SECOND)
    partition, record = await admit(world, contest)
    await world.closes(contest)
    await world.append(partition, record)
    end = (await world.reader.end_offsets(world.topic.name, [partition]))[partition]
    await eventually(lambda: is_folded(world, partition, end))
    assert await world.counted(contest) == (0, 0)


async def is_folded(world: World, partition: int, end: int) -> bool:
    return (await world.votes.state(partition)).position.offset >= end


async def test_who_counts_is_as_it_was_at_the_closing_until_the_contest_is_reopened(world: World) -> None:
    engine = world.catalogue.engine
    contest = await world.contest(end=await world.now() + 2 * SECOND)
    approved, rejected = f"{contest}-p0", f"{contest}-p1"
    await engine.patch(PARTICIPANTS, ACCOUNT, rejected, {"status": "rejected"})
    await world.closes(contest)
    await engine.patch(PARTICIPANTS, ACCOUNT, rejected, {"status": "approved"})
    await engine.patch(PARTICIPANTS, ACCOUNT, approved, {"status": "rejected"})
    await world.participant(contest, "new")
    newcomer = f"{contest}-new"
    shown = (await engine.get(PARTICIPANTS, ACCOUNT, rejected)).document
    assert shown["status"] == "approved"
    found = await world.read(contest)
    assert found.participants == {approved: "approved", rejected: "rejected", newcomer: "rejected"}
    await world.reopener.reopen(ACCOUNT, contest, await world.now() + 3600 * SECOND)
    found = await world.read(contest)
    assert found.participants == {approved: "rejected", rejected: "approved", newcomer: "approved"}


async def test_the_end_of_a_closed_contest_stays_and_all_else_may_change(world: World) -> None:
    engine = world.catalogue.engine
    contest = await world.contest(end=await world.now() + SECOND)
    await world.closes(contest)
    before = await engine.get(CONTESTS, ACCOUNT, contest)
    for change in ({"end": "2099-01-01T00:00:00Z"}, {"end": None}, {"start": "2021-01-01T00:00:00Z"}):
        with pytest.raises(ContestFinal):
            await engine.patch(CONTESTS, ACCOUNT, contest, {"contest_config": change})
    patch = {"title": "New", "publish": None, "contest_config": {"free": {"max_contest": 3}}}
    after = await engine.patch(CONTESTS, ACCOUNT, contest, patch)
    assert closing_of(after.document) == closing_of(before.document) != None  # noqa: E711
    await eventually(lambda: settled(world, contest))


@pytest.mark.parametrize("member", ["closing", "reopened"])
async def test_what_the_server_keeps_of_a_closing_is_neither_written_nor_read(world: World, member: str) -> None:
    engine = world.catalogue.engine
    contest = await world.contest(end=await world.now() + SECOND)
    for attempt in (
        engine.patch(CONTESTS, ACCOUNT, contest, {member: {"seq": 7}}),
        engine.patch(CONTESTS, ACCOUNT, contest, {member: None}),
        world.catalogue.create("contests", ACCOUNT, {member: 1}),
    ):
        with pytest.raises(ValidationFailed) as refused:
            await attempt
        assert refused.value.data["errors"] == [
            {"pointer": f"/{member}", "message": "is no member of this resource"}
        ]
    await world.closes(contest)
    stored = await engine.get(CONTESTS, ACCOUNT, contest)
    shown = CONTESTS.show(stored)
    assert "closing" in stored.document
    assert member not in shown
    await engine.patch(CONTESTS, ACCOUNT, contest, shown)


async def test_a_decision_by_what_has_changed_since_is_refused(world: World) -> None:
    """A participant, a source or the end: what the closing would freeze is not what holds."""
    contest = await world.contest(end=await world.now() + 3600 * SECOND)
    changes = (
        world.participant(contest, "new"),
        source(world, contest, "sms"),
        world.catalogue.engine.patch(CONTESTS, ACCOUNT, contest, {"title": "x"}),
    )
    for change in changes:
        decision = await decide(world, contest)
        await change
        assert (await world.catalogue.writer.record(decision)).kind is OutcomeKind.CONFLICT
    assert (await world.read(contest)).closed == 0


async def test_external_sources_may_report_until_their_grace_is_over(own: World) -> None:
    async with own.projecting(source_grace_s=3):
        end = await own.now() + SECOND
        contest = await own.contest(end=end)
        await source(own, contest, "sms")
        await source(own, contest, "retired", retired=True)
        sms, retired = (own.source_partition(contest, name) for name in ("sms", "retired"))
        await own.closes(contest)
        await eventually(lambda: source_closed(own, contest, retired, "retired"))
        assert not await source_closed(own, contest, sms, "sms")
        await own.append(sms, a_report("in time", ("A", 5, 5, 0), contest=contest, source="sms"))
        await eventually(lambda: source_closed(own, contest, sms, "sms"))
        assert await own.now() >= end + 3 * SECOND
        await own.append(sms, a_report("late", ("A", 9, 9, 0), contest=contest, source="sms"))
        await eventually(lambda: settled(own, contest))

        async def is_late() -> bool:
            return (await own.votes.report(sms, contest, "sms", "late")).late

        await eventually(is_late)
        counts = await own.votes.counts(sms, contest)
        assert counts is not None
        assert counts.sources["sms"].figures["A"].count == 5


async def source_closed(world: World, contest: str, partition: int, name: str) -> bool:
    return (await world.votes.closing(partition, contest)).sources.get(name, 0) == 1


async def test_registrations_are_frozen_with_the_closing(world: World) -> None:
    contest = await world.contest(end=await world.now() + SECOND)
    await source(world, contest, "sms", mapping={"A": f"{contest}-p0"})
    before = sources_of(await world.catalogue.views.contest_config(ACCOUNT, contest))
    await world.closes(contest)
    await source(world, contest, "sms", mapping={"A": f"{contest}-p1"}, is_in_total=False)
    await source(world, contest, "tv")
    assert sources_of(await world.catalogue.views.contest_config(ACCOUNT, contest)) == before
    await world.reopener.reopen(ACCOUNT, contest, await world.now() + 3600 * SECOND)
    after = sources_of(await world.catalogue.views.contest_config(ACCOUNT, contest))
    assert (after.keys(), after["sms"].is_in_total) == ({"sms", "tv"}, False)


async def test_a_reopened_contest_takes_votes_again_and_closes_anew(world: World) -> None:
    contest = await world.contest(end=await world.now() + SECOND)
    await source(world, contest, "sms")
    assert await world.vote(contest)
    await world.closes(contest)
    assert not await world.vote(contest)
    await eventually(lambda: settled(world, contest))
    await world.reopener.reopen(ACCOUNT, contest, await world.now() + 2 * SECOND)
    found = await world.read(contest)
    assert (found.closed, found.reopened, found.phase(await world.now())) == (0, 1, Phase.RUNNING)
    accepted = 1 + await vote_until_refused(world, contest)
    await world.closes(contest, 2)
    await eventually(lambda: settled(world, contest))
    assert accepted > 1
    assert await world.counted(contest) == (accepted, 0)
    sms = world.source_partition(contest, "sms")
    assert (await world.votes.closing(sms, contest)).sources == {"sms": 2}


async def test_marks_that_come_late_or_twice_change_nothing(world: World) -> None:
    """Of managers that slept: beside the reopening, behind it, and behind the next closing."""
    contest = await world.contest(end=await world.now() + SECOND)
    await world.closes(contest)
    late = [ContestClosed(contest, 1), ContestClosed(contest, 1, "sms")]

    async def repeat_marks() -> None:
        for partition in range(PARTITIONS):
            await world.append(partition, *late, *late)

    end = await world.now() + 3 * SECOND
    await asyncio.gather(repeat_marks(), world.reopener.reopen(ACCOUNT, contest, end))
    await repeat_marks()
    accepted = await vote_until_refused(world, contest)
    await world.closes(contest, 2)
    for partition in range(PARTITIONS):
        await world.append(partition, *late, ContestReopened(contest, 1))
    ends = await world.reader.end_offsets(world.topic.name, range(PARTITIONS))
    for partition, last in ends.items():
        await eventually(lambda partition=partition, last=last: is_folded(world, partition, last))  # type: ignore[misc]
    assert await world.is_closed(contest, 2)
    assert await world.counted(contest) == (accepted, 0)


async def test_nothing_is_admitted_until_a_partition_has_folded_the_reopening(
    own: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which another projector finishes, where the first was killed."""
    async with own.projecting():
        contest = await own.contest(end=await own.now() + SECOND)
        assert await own.vote(contest)
        await own.closes(contest)
    reopening = asyncio.create_task(own.reopener.reopen(ACCOUNT, contest, await own.now() + 3600 * SECOND))
    with monkeypatch.context() as idle:
        idle.setattr(ClosingManager, "run", lambda _: asyncio.Event().wait())
        async with own.projecting():

            async def answer() -> Answer | None:
                found = await own.read(contest)
                return None if found.closed else await ask(own, found)

            assert isinstance(await eventually(answer), Shut)
    async with own.projecting():
        await reopening
        assert await own.vote(contest)
        await eventually(lambda: is_counted(own, contest, 2))


async def ask(world: World, contest: Contest) -> Answer:
    """What is answered to a voter right now, by these rules."""
    command = a_vote(f"{contest.key}-p0", contest=contest.key, voter="slow", vote_id="slow")
    partition, selection = world.topic.partition_of(command.voter), judge(contest, command)
    assert isinstance(selection, Selection)
    request = Reservation(contest, command.voter, command.vote_id, command.content, "c-free", selection)
    incarnation = (await world.votes.state(partition)).incarnation
    await world.votes.raise_config(partition, contest.key, contest.version, incarnation)
    [answer] = await world.votes.reserve(partition, [request])
    return answer


async def is_counted(world: World, contest: str, votes: int) -> bool:
    return await world.counted(contest) == (votes, 0)


async def test_a_reopening_needs_a_closed_contest_and_an_end_ahead(world: World) -> None:
    running = await world.contest(end=await world.now() + 3600 * SECOND)
    contest = await world.contest(end=await world.now() + SECOND)
    later = await world.now() + 7200 * SECOND
    with pytest.raises(NotClosed):
        await world.reopener.reopen(ACCOUNT, running, later)
    await world.closes(contest)
    with pytest.raises(ValidationFailed):
        await world.reopener.reopen(ACCOUNT, contest, await world.now() - 1)
    first = await world.reopener.reopen(ACCOUNT, contest, later)
    assert await world.reopener.reopen(ACCOUNT, contest, later) == first
    with pytest.raises(NotClosed):
        await world.reopener.reopen(ACCOUNT, contest, later + SECOND)


async def test_a_catalogue_that_is_folded_anew_finds_all_settled(world: World) -> None:
    contest = await world.contest(end=await world.now() + SECOND)
    await world.vote(contest)
    await world.closes(contest)
    await eventually(lambda: settled(world, contest))
    await world.reopener.reopen(ACCOUNT, contest, await world.now() + SECOND)
    await world.closes(contest, 2)
    await eventually(lambda: settled(world, contest))
    marks = await world.marks(contest)
    await world.catalogue.destroy_view(ACCOUNT)

    async def is_back() -> bool:
        found = await world.catalogue.views.get(ACCOUNT, "contests", contest)
        return found is not None and "closing" in found.document

    await eventually(is_back)
    await eventually(lambda: settled(world, contest))
    assert await world.marks(contest) == marks
    assert (await world.read(contest)).closed == 2
    assert await world.counted(contest) == (1, 0)


async def has_passed(world: World, moment: int) -> bool:
    return await world.now() > moment


async def settled(world: World, contest: str) -> bool:
    return not await world.is_due(contest)
