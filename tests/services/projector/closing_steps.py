"""Steps that tests of closings share."""

import asyncio
from typing import Any

import orjson

from libs.catalogue.commands import WriteRequest
from libs.catalogue.contests.closing_record import closed
from libs.catalogue.contests.contest_mapper import sources_of
from libs.catalogue.contests.vote_sources import source_key
from libs.catalogue.resource_table import VOTE_SOURCES
from libs.contracts.catalogue_events import ContestClosing
from libs.tally.admission import Selection, judge
from libs.tally.contest import Contest
from libs.tally.events import Event
from libs.tally.reservations import Answer, Granted, Request, cast_of
from tests.services.projector.projector_environment import ACCOUNT, ProjectorEnvironment
from tests.support.builders import a_vote
from tests.support.eventually import eventually


async def vote_until_refused(env: ProjectorEnvironment, contest: str) -> int:
    """Voters without a pause; how many were accepted."""
    accepted = 0
    while any(votes := await asyncio.gather(*(env.vote(contest) for _ in range(8)))):
        accepted += sum(votes)
    return accepted


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


async def source(env: ProjectorEnvironment, contest: str, name: str, **members: Any) -> None:
    await env.catalogue.record_service.put(
        VOTE_SOURCES, ACCOUNT, source_key(contest, name), members, parent=contest
    )


async def ask(env: ProjectorEnvironment, contest: Contest) -> Answer:
    """Return the answer to a voter now, by these rules."""
    command = a_vote(f"{contest.key}-p0", contest=contest.key, voter="slow", vote_id="slow")
    partition, selection = env.topic.partition_of(command.voter), judge(contest, command)
    assert isinstance(selection, Selection)
    request = Request(contest, command.voter, command.vote_id, command.content, "c-free", selection)
    incarnation = (await env.votes.state(partition)).incarnation
    await env.votes.put_in_force(partition, contest, incarnation)
    [answer] = await env.votes.reserve(partition, [request])
    return answer


async def admit(env: ProjectorEnvironment, contest: str) -> tuple[int, Event]:
    """A vote that is admitted and not recorded yet: its partition, and its record."""

    async def granted() -> Granted | None:
        answer = await ask(env, await env.read(contest))
        return answer if isinstance(answer, Granted) else None

    command = a_vote(f"{contest}-p0", contest=contest, voter="slow", vote_id="slow")
    grant = await eventually(granted)
    assert grant is not None
    return env.topic.partition_of(command.voter), cast_of(command, grant, "receipt")


async def has_passed(env: ProjectorEnvironment, moment: int) -> bool:
    return await env.now() > moment


async def is_folded(env: ProjectorEnvironment, partition: int, end: int) -> bool:
    return (await env.votes.state(partition)).position.offset >= end


async def is_counted(env: ProjectorEnvironment, contest: str, votes: int) -> bool:
    return await env.counted(contest) == (votes, 0)


async def settled(env: ProjectorEnvironment, contest: str) -> bool:
    return not await env.is_due(contest)
