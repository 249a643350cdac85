"""Contests close automatically, despite interruptions: exactly the accepted votes count.

Reopened contests accept votes in all partitions or none, and old markers have no effect.
"""

from contextlib import suppress

import orjson
import pytest

from libs.catalogue.commands import WriteRequest
from libs.catalogue.contests.closing_record import closed, closing_of
from libs.catalogue.contests.contest_mapper import sources_of
from libs.catalogue.contests.contest_votes import ContestVotes
from libs.catalogue.errors import NotClosed
from libs.catalogue.resource_table import CONTESTS, PARTICIPANTS
from libs.contracts.catalogue_events import ContestClosing, catalogue_codec
from libs.contracts.topics import VotesLog
from libs.contracts.validation import ValidationFailed
from libs.tally.contest import Phase
from libs.tally.errors import ContestFinal, ContestNotRunning, ViewsUnavailable
from libs.tally.events import ContestClosed, ContestReopened
from libs.tally.time_conversion import timestamp
from libs.voting.protocol.shared_steps import Accepted
from services.projector import closing_manager
from tests.services.projector.projector_environment import ACCOUNT, HOUR, PARTITIONS, SECOND, ProjectorEnvironment
from tests.support.builders.contests import a_report, a_void
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow
KEPT = ("closing", "reopened")
"""Members of a contest's document that the server keeps of its closing."""


async def test_a_vote_one_millisecond_before_the_end_counts_and_one_at_the_end_does_not(
    own: ProjectorEnvironment,
) -> None:
    """However late it is folded."""
    async with own.projecting():
        end = await own.now() + HOUR
        contest = await own.contest(end)
    await own.set_clocks(end - 1000)
    before = await own.cast(contest)
    await own.set_clocks(end)
    at_the_end = await own.cast(contest)
    assert isinstance(before, Accepted)
    assert before.terms.accepted_at == end - 1000
    assert isinstance(at_the_end, ContestNotRunning)
    async with own.projecting():
        await own.change(contest, contest_config={"end": timestamp(end - HOUR)})
        await own.closes(contest)
        assert await own.counted(contest) == (1, 0)


async def test_a_contest_without_an_end_stays_open_and_a_later_end_is_waited_for(
    env: ProjectorEnvironment,
) -> None:
    async def moved_in_time() -> tuple[str, int] | None:
        """A contest and its first end; None if it was closed before it had a later one."""
        contest = await env.contest(end=await env.now() + HOUR)
        first = await env.now() + 5 * SECOND
        with suppress(ContestFinal):
            for end in (first, first + HOUR):
                await env.change(contest, contest_config={"end": timestamp(end)})
            return contest, first
        return None

    endless, found = await env.contest(end=None), await eventually(moved_in_time)
    assert found is not None
    moved, first = found
    ended = await env.contest(end=first)
    await env.closes(ended)
    for contest in (endless, moved):
        assert (await env.read(contest)).closed == 0
        assert await env.vote(contest)


async def test_another_projector_goes_on_where_one_was_killed(own: ProjectorEnvironment) -> None:
    """After each step: the decision, then a mark in each partition. Or twice each, by two that were killed."""
    crashes = [(steps, times) for steps in range(PARTITIONS + 2) for times in (1, 2)]
    async with own.projecting():
        contests = [await own.contest(await own.now() + HOUR) for _ in crashes]
        for contest in contests:
            assert await own.vote(contest)
        for contest in contests:
            end = await own.ends(contest)
        decisions = [await decide(own, contest) for contest in contests]

    async def has_passed() -> bool:
        return await own.now() > end

    await eventually(has_passed)
    log, topic = own.catalogue.log, own.catalogue.topic
    for contest, decision, (steps, times) in zip(contests, decisions, crashes, strict=True):
        for _ in range(times if steps else 0):
            await log.append(topic.name, topic.partition_of(ACCOUNT), catalogue_codec.encode(decision))
            for partition in range(steps - 1):
                await own.append(partition, ContestClosed(contest, 1))
    async with own.projecting():
        for contest in contests:
            await own.closes(contest)
            await own.settles(contest)
            assert await own.counted(contest) == (1, 0)
            closing = closing_of((await own.catalogue.record_service.get(CONTESTS, ACCOUNT, contest)).document)
            assert closing is not None
            assert (closing.seq, set(closing.approved)) == (1, {f"{contest}-p0", f"{contest}-p1"})


async def decide(env: ProjectorEnvironment, contest: str) -> ContestClosing:
    """Return a manager's first write, as of now."""
    config = await env.catalogue.views.contest_config(ACCOUNT, contest)
    found = await env.read(contest)
    assert config.contest is not None
    document = closed(config.contest.document, found, {}, sources_of(config), found.end or 0)
    return ContestClosing(
        account=ACCOUNT,
        command_id=WriteRequest.once().command_id,
        at=env.catalogue.writer.now(),
        contest=contest,
        record=orjson.dumps(document).decode(),
        expected_config=found.version,
    )


async def test_while_a_contest_is_closing_nobody_can_tell_whose_votes_it_counts(own: ProjectorEnvironment) -> None:
    """A vote on its way may be the only one of a participant that is to be deleted."""
    log = VotesLog("any", PARTITIONS)
    votes = ContestVotes(own.catalogue.views, own.votes, log, lambda: log.topics[0])
    async with own.projecting(produce_deadline_ms=60_000):
        contest = await own.contest(end=await own.now() + HOUR)
        voted, other = [
            await own.catalogue.record_service.get(PARTICIPANTS, ACCOUNT, f"{contest}-p{n}") for n in (0, 1)
        ]
        version = (await PARTICIPANTS.judge_deletion(ACCOUNT, voted, votes)).parent
        partition, record = await own.admit(contest)
        await own.ends(contest)

        async def is_decided() -> bool:
            return (await own.read(contest)).closed == 1

        await eventually(is_decided)
        for participant in (voted, other):
            with pytest.raises(ViewsUnavailable):
                await PARTICIPANTS.judge_deletion(ACCOUNT, participant, votes)
        await own.append(partition, record)
        await own.closes(contest)
        with pytest.raises(ContestFinal):
            await PARTICIPANTS.judge_deletion(ACCOUNT, voted, votes)
        later = (await PARTICIPANTS.judge_deletion(ACCOUNT, other, votes)).parent
        assert version is not None
        assert later is not None
        assert later > version


async def test_who_counts_is_as_it_was_at_the_closing_until_the_contest_is_reopened(
    env: ProjectorEnvironment,
) -> None:
    record_service = env.catalogue.record_service
    contest = await env.contest(end=await env.now() + HOUR)
    approved, rejected = f"{contest}-p0", f"{contest}-p1"
    await record_service.patch(PARTICIPANTS, ACCOUNT, rejected, {"status": "rejected"})
    await env.ends(contest)
    await env.closes(contest)
    await record_service.patch(PARTICIPANTS, ACCOUNT, rejected, {"status": "approved"})
    await record_service.patch(PARTICIPANTS, ACCOUNT, approved, {"status": "rejected"})
    await env.participant(contest, "new")
    newcomer = f"{contest}-new"
    shown = (await record_service.get(PARTICIPANTS, ACCOUNT, rejected)).document
    assert shown["status"] == "approved"
    found = await env.read(contest)
    assert found.participants == {approved: "approved", rejected: "rejected", newcomer: "rejected"}
    await env.reopener.reopen(ACCOUNT, contest, await env.now() + HOUR)
    found = await env.read(contest)
    assert found.participants == {approved: "rejected", rejected: "approved", newcomer: "approved"}


async def test_the_end_of_a_closed_contest_stays_and_its_closing_is_the_servers_and_all_else_may_change(
    env: ProjectorEnvironment,
) -> None:
    contest = await env.contest(end=await env.now() + SECOND)
    for member in KEPT:
        for attempt in (
            env.change(contest, **{member: {"seq": 7}}),
            env.change(contest, **{member: None}),
            env.catalogue.create("contests", ACCOUNT, {member: 1}),
        ):
            with pytest.raises(ValidationFailed) as refused:
                await attempt
            assert refused.value.data["errors"] == [{"pointer": f"/{member}", "message": "is not a known member"}]
    await env.closes(contest)
    before = await env.catalogue.record_service.get(CONTESTS, ACCOUNT, contest)
    for change in ({"end": "2099-01-01T00:00:00Z"}, {"end": None}, {"start": "2021-01-01T00:00:00Z"}):
        with pytest.raises(ContestFinal):
            await env.change(contest, contest_config=change)
    patch = {"title": "New", "publish": None, "contest_config": {"free": {"max_contest": 3}}}
    after = await env.change(contest, **patch)
    assert closing_of(after.document) == closing_of(before.document) != None  # noqa: E711
    shown = CONTESTS.show(after)
    assert not shown.keys() & set(KEPT)
    await env.change(contest, **shown)
    await env.settles(contest)


async def test_external_sources_may_report_until_their_grace_is_over(own: ProjectorEnvironment) -> None:
    async def reports_in_time() -> tuple[str, int]:
        """A closed contest and its end; another one if the grace was over before the report was folded."""
        contest = await own.contest(end=await own.now() + HOUR)
        await own.source(contest, "sms")
        await own.source(contest, "retired", retired=True)
        end = await own.ends(contest)
        sms, retired = (own.source_partition(contest, name) for name in ("sms", "retired"))
        await own.closes(contest)
        await eventually(lambda: source_closed(own, contest, retired, "retired"))
        assert not await source_closed(own, contest, sms, "sms")
        await own.append(sms, a_report("in time", ("A", 5, 5, 0), contest=contest, source="sms"))
        assert not await is_late(own, contest, "in time")
        return contest, end

    async with own.projecting(source_grace_s=8):
        contest, end = await eventually(reports_in_time)
        sms = own.source_partition(contest, "sms")
        await eventually(lambda: source_closed(own, contest, sms, "sms"))
        assert await own.now() >= end + 8 * SECOND
        await own.append(sms, a_report("late", ("A", 9, 9, 0), contest=contest, source="sms"))
        await own.settles(contest)
        assert await is_late(own, contest, "late")
        counts = await own.votes.counts(sms, contest)
        assert counts is not None
        assert counts.sources["sms"].figures["A"].count == 5


async def is_late(env: ProjectorEnvironment, contest: str, name: str) -> bool:
    """Of a report of the source sms, once it is folded."""
    sms = env.source_partition(contest, "sms")
    report = await eventually(lambda: env.votes.report(sms, contest, "sms", name))
    assert report is not None
    return report.late


async def source_closed(env: ProjectorEnvironment, contest: str, partition: int, name: str) -> bool:
    return (await env.votes.closing(partition, contest)).sources.get(name, 0) == 1


async def test_a_reopened_contest_takes_votes_again_and_closes_again(env: ProjectorEnvironment) -> None:
    contest = await env.contest(end=await env.now() + HOUR)
    await env.source(contest, "sms")
    assert await env.vote(contest)
    await env.end(contest)
    assert not await env.vote(contest)
    await env.reopens(contest, await env.now() + HOUR)
    found = await env.read(contest)
    assert (found.closed, found.reopened, found.phase(await env.now())) == (0, 1, Phase.RUNNING)
    assert await env.vote(contest)
    await env.ends(contest)
    accepted = 2 + await env.vote_until_refused(contest)
    await env.closes(contest, 2)
    await env.settles(contest)
    assert await env.counted(contest) == (accepted, 0)
    sms = env.source_partition(contest, "sms")
    assert (await env.votes.closing(sms, contest)).sources == {"sms": 2}


async def test_what_waits_for_a_reopening_takes_effect_in_parts(
    own: ProjectorEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closing_manager, "REOPENS_AT_ONCE", 2)
    async with own.projecting():
        contest = await own.contest(end=await own.now() + HOUR)
        await own.end(contest)
        await own.append(0, *(a_void(str(number), contest=contest) for number in range(7)))

        async def they_wait() -> bool:
            return [state.waiting for state in await own.states(contest)] == [7] + [0] * (PARTITIONS - 1)

        await eventually(they_wait)
        await own.reopens(contest, await own.now() + HOUR)
        assert {(state.waiting, state.reopened) for state in await own.states(contest)} == {(0, 1)}
        assert await own.vote(contest)
    marks = [mark for partition, mark in await own.marks(contest) if partition == 0]
    assert marks == [ContestClosed(contest, 1), *[ContestReopened(contest, 1, 2)] * 4]


async def test_a_reopening_needs_a_closed_contest_and_an_end_ahead(env: ProjectorEnvironment) -> None:
    running = await env.contest(end=await env.now() + HOUR)
    contest = await env.contest(end=await env.now() + SECOND)
    later = await env.now() + 7200 * SECOND
    with pytest.raises(NotClosed):
        await env.reopener.reopen(ACCOUNT, running, later)
    await env.closes(contest)
    with pytest.raises(ValidationFailed):
        await env.reopener.reopen(ACCOUNT, contest, await env.now() - 1)
    first = await env.reopener.reopen(ACCOUNT, contest, later)
    assert await env.reopener.reopen(ACCOUNT, contest, later) == first
    with pytest.raises(NotClosed):
        await env.reopener.reopen(ACCOUNT, contest, later + SECOND)


async def test_a_catalogue_that_is_folded_again_finds_all_settled(env: ProjectorEnvironment) -> None:
    contest = await env.contest(end=await env.now() + HOUR)
    assert await env.vote(contest)
    await env.end(contest)
    await env.reopens(contest, await env.now() + HOUR)
    await env.end(contest, 2)
    marks = await env.marks(contest)
    await env.catalogue.destroy_view(ACCOUNT)
    await eventually(env.catalogue.is_fresh)
    await env.settles(contest)
    assert await env.marks(contest) == marks
    assert (await env.read(contest)).closed == 2
    assert await env.counted(contest) == (1, 0)
