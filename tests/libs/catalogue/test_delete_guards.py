"""Deletions that a resource's rules may reject."""

from collections.abc import Awaitable, Callable

import pytest

from libs.catalogue.contests.contest_rules import ParticipantResource
from libs.catalogue.contests.contest_votes import ContestVotes
from libs.catalogue.records import RecordService
from libs.catalogue.resource_definition import JudgedBy, Table
from libs.catalogue.schemas.contest import Participant
from libs.contracts.catalogue_events import Stored
from libs.tally.errors import ContestFinal
from tests.libs.catalogue.conftest import TABLE
from tests.support.builders.catalogue import Catalogue

CONTESTS = TABLE["contests"]


def record_service_of(catalogue: Catalogue, rule: Callable[[Stored], Awaitable[JudgedBy]]) -> RecordService:
    """Return a service of participants whose deletions are judged by `rule`."""

    class JudgedResource(ParticipantResource):
        async def judge_deletion(self, account: str, stored: Stored, votes: ContestVotes | None) -> JudgedBy:
            return await rule(stored)

    judged = JudgedResource("participants", "participant", Participant, {}, parent="contests", contest="parent")
    return RecordService(Table(CONTESTS, judged), catalogue.views, catalogue.writer)


async def test_a_deletion_is_judged_again_when_the_parent_has_changed_meanwhile(
    catalogue: Catalogue, account: str
) -> None:
    contest = await catalogue.create("contests", account, {})
    participant = await catalogue.create("participants", account, {}, contest.key)
    judged: list[int] = []

    async def rule(found: Stored) -> JudgedBy:
        assert found == participant
        above = await catalogue.record_service.get(CONTESTS, account, contest.key)
        judged.append(above.version)
        if len(judged) == 1:
            await catalogue.record_service.patch(CONTESTS, account, contest.key, {"title": "x"})
        return JudgedBy(parent=above.version)

    service = record_service_of(catalogue, rule)
    await service.delete(service.table["participants"], account, participant.key)
    assert len(judged) == len(set(judged)) == 2
    assert await catalogue.views.get(account, "participants", participant.key) is None


async def test_what_a_rule_refuses_to_delete_stays(catalogue: Catalogue, account: str) -> None:
    contest = await catalogue.create("contests", account, {})
    participant = await catalogue.create("participants", account, {}, contest.key)

    async def rule(_: Stored) -> JudgedBy:
        raise ContestFinal("no")

    service = record_service_of(catalogue, rule)
    with pytest.raises(ContestFinal):
        await service.delete(service.table["participants"], account, participant.key)
    assert await catalogue.views.get(account, "participants", participant.key) == participant
