"""Reopened contests accept votes in all partitions or none, and old markers have no effect."""

import pytest

from libs.catalogue.errors import NotClosed
from libs.contracts.validation import ValidationFailed
from libs.tally.contest import Phase
from libs.tally.events import ContestClosed, ContestReopened
from services.projector import closing_manager
from tests.services.projector.closing_steps import (
    settled,
    source,
    vote_until_refused,
)
from tests.services.projector.projector_environment import ACCOUNT, HOUR, PARTITIONS, SECOND, ProjectorEnvironment
from tests.support.builders import a_void
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow


async def test_a_reopened_contest_takes_votes_again_and_closes_again(env: ProjectorEnvironment) -> None:
    contest = await env.contest(end=await env.now() + HOUR)
    await source(env, contest, "sms")
    assert await env.vote(contest)
    await env.ends(contest)
    await env.closes(contest)
    assert not await env.vote(contest)
    await eventually(lambda: settled(env, contest))
    await env.reopens(contest, await env.now() + HOUR)
    found = await env.read(contest)
    assert (found.closed, found.reopened, found.phase(await env.now())) == (0, 1, Phase.RUNNING)
    assert await env.vote(contest)
    await env.ends(contest)
    accepted = 2 + await vote_until_refused(env, contest)
    await env.closes(contest, 2)
    await eventually(lambda: settled(env, contest))
    assert await env.counted(contest) == (accepted, 0)
    sms = env.source_partition(contest, "sms")
    assert (await env.votes.closing(sms, contest)).sources == {"sms": 2}


async def test_what_waits_for_a_reopening_takes_effect_in_parts(
    own: ProjectorEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closing_manager, "REOPENS_AT_ONCE", 2)
    async with own.projecting():
        contest = await own.contest(end=await own.now() + SECOND)
        await own.closes(contest)
        await eventually(lambda: settled(own, contest))
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
    await env.ends(contest)
    await env.closes(contest)
    await eventually(lambda: settled(env, contest))
    await env.reopens(contest, await env.now() + HOUR)
    await env.ends(contest)
    await env.closes(contest, 2)
    await eventually(lambda: settled(env, contest))
    marks = await env.marks(contest)
    await env.catalogue.destroy_view(ACCOUNT)
    await eventually(env.catalogue.is_fresh)
    await eventually(lambda: settled(env, contest))
    assert await env.marks(contest) == marks
    assert (await env.read(contest)).closed == 2
    assert await env.counted(contest) == (1, 0)
