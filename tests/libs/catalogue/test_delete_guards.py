"""Deletions that a guard may refuse."""

import pytest

from libs.catalogue.records import RecordService
from libs.contracts.catalogue_events import Stored
from libs.tally.errors import ContestFinal
from tests.libs.catalogue.conftest import TABLE
from tests.support.catalogue import Catalogue

CONTESTS, PARTICIPANTS = TABLE["contests"], TABLE["participants"]


async def test_a_guard_is_asked_again_when_the_parent_has_changed_meanwhile(
    catalogue: Catalogue, account: str
) -> None:
    contest = await catalogue.create("contests", account, {})
    participant = await catalogue.create("participants", account, {}, contest.key)
    asked: list[int] = []

    async def guard(_: str, found: Stored) -> int:
        assert found == participant
        above = await catalogue.record_service.get(CONTESTS, account, contest.key)
        asked.append(above.version)
        if len(asked) == 1:
            await catalogue.record_service.patch(CONTESTS, account, contest.key, {"title": "x"})
        return above.version

    record_service = RecordService(TABLE, catalogue.views, catalogue.writer, {"participants": guard})
    await record_service.delete(PARTICIPANTS, account, participant.key)
    assert len(asked) == len(set(asked)) == 2
    assert await catalogue.views.get(account, "participants", participant.key) is None


async def test_what_a_guard_refuses_stays(catalogue: Catalogue, account: str) -> None:
    contest = await catalogue.create("contests", account, {})
    participant = await catalogue.create("participants", account, {}, contest.key)

    async def guard(_: str, __: Stored) -> int:
        raise ContestFinal("no")

    record_service = RecordService(TABLE, catalogue.views, catalogue.writer, {"participants": guard})
    with pytest.raises(ContestFinal):
        await record_service.delete(PARTICIPANTS, account, participant.key)
    assert await catalogue.views.get(account, "participants", participant.key) == participant
