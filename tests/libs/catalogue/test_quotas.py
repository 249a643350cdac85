"""Sizes of accounts and contests: counted by the fold, and limited for what clients write."""

import pytest

from libs.catalogue import records
from libs.catalogue.commands import WriteRequest
from libs.catalogue.errors import QuotaExceeded, RecordTooLarge
from libs.catalogue.records import Quota, RecordService
from libs.catalogue.resource_table import CONTESTS, PARTICIPANTS
from libs.contracts.catalogue_events import Stored
from tests.libs.catalogue.conftest import CRATES, TABLE
from tests.support.builders.catalogue import Catalogue


def service(catalogue: Catalogue, **quota: int) -> RecordService:
    return RecordService(TABLE, catalogue.views, catalogue.writer, quota=Quota(**quota))


def json_bytes(*stored: Stored) -> int:
    return sum(len(one.record.encode()) for one in stored)


async def test_the_sizes_of_an_account_and_its_contests_are_those_of_their_records(
    catalogue: Catalogue, account: str
) -> None:
    contest = await catalogue.create("contests", account, {"title": "é"})
    entries = [await catalogue.create("participants", account, {"title": "x"}, contest.key) for _ in range(3)]
    crate = await catalogue.create("crates", account, {"title": "a"})
    crate = await catalogue.record_service.patch(CRATES, account, crate.key, {"title": "longer"})
    of_account, of_contest = await catalogue.views.sizes(account, contest.key)
    assert of_account == (json_bytes(contest, crate, *entries), 5)
    assert of_contest == (json_bytes(contest, *entries), 4)
    await catalogue.record_service.delete(PARTICIPANTS, account, entries[0].key)
    await catalogue.record_service.delete(CRATES, account, crate.key)
    of_account, of_contest = await catalogue.views.sizes(account, contest.key)
    assert of_account == of_contest == (json_bytes(contest, *entries[1:]), 3)
    await catalogue.record_service.delete(CONTESTS, account, contest.key)
    assert (await catalogue.views.sizes(account))[0] == of_account, "a deleted contest can be restored"


async def test_an_account_at_its_quota_may_change_and_delete_but_not_grow(
    catalogue: Catalogue, account: str
) -> None:
    small = service(catalogue, account_max_records=2, account_max_bytes=1_000)
    made = [await small.create(CRATES, account, {"title": "x" * 400}, WriteRequest.once()) for _ in range(2)]
    with pytest.raises(QuotaExceeded, match=r"at most 2 records.*TALLY_ACCOUNT_MAX_RECORDS"):
        await small.create(CRATES, account, {}, WriteRequest.once())
    key = made[0].stored.key
    with pytest.raises(QuotaExceeded, match=r"at most 1,000 bytes.*TALLY_ACCOUNT_MAX_BYTES"):
        await small.patch(CRATES, account, key, {"title": "x" * 700})
    await small.patch(CRATES, account, key, {"title": "y" * 400})
    await small.delete(CRATES, account, key)
    await small.create(CRATES, account, {}, WriteRequest.once())


async def test_a_contest_and_its_participants_have_a_largest_size_together(
    catalogue: Catalogue, account: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "CONTEST_BYTES", 500)
    small = service(catalogue)
    contest = (await small.create(CONTESTS, account, {"title": "x"}, WriteRequest.once())).stored
    body, once = {"story": "x" * 300}, WriteRequest.once
    entry = (await small.create(PARTICIPANTS, account, body, once(), parent=contest.key)).stored
    with pytest.raises(RecordTooLarge, match="A contest with its participants and vote sources"):
        await small.create(PARTICIPANTS, account, body, once(), parent=contest.key)
    with pytest.raises(RecordTooLarge):
        await small.patch(CONTESTS, account, contest.key, {"description": "x" * 300})
    await small.delete(PARTICIPANTS, account, entry.key)
    await small.create(PARTICIPANTS, account, body, once(), parent=contest.key)


async def test_a_stored_record_beyond_its_limits_is_read_and_its_other_members_are_changed(
    catalogue: Catalogue, account: str
) -> None:
    """Stored as before the limits: by the server, whose writes have none."""
    made = await catalogue.create("contests", account, {"title": "before"})
    old = {"title": "x" * 70_000, "description": "y" * 300_000, "tags": ["t"] * 500}
    await catalogue.record_service.amend(CONTESTS, account, made.key, lambda before: before | old)
    stored = await catalogue.record_service.patch(CONTESTS, account, made.key, {"custom_data": {}})
    assert CONTESTS.show(stored)["title"] == old["title"]
    shorter = await catalogue.record_service.patch(CONTESTS, account, made.key, {"title": "x" * 300})
    assert shorter.document["tags"] == old["tags"]
