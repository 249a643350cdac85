"""Records on the real log and views: read your writes, merge, races, cascades, references."""

import asyncio

import pytest

from libs.catalogue.command_writer import CommandWriter, WriteRequest
from libs.catalogue.errors import InUse, StatusTransition, VersionConflict
from libs.catalogue.record_service import RecordService
from libs.contracts.catalogue_events import OutcomeKind, RecordChanged, RecordCreated, Stored
from libs.contracts.log_records import Appended
from libs.contracts.validation import ValidationFailed
from libs.tally.errors import (
    AppendUnknown,
    IdempotencyKeyReused,
    LogUnavailable,
    NotAppended,
    NotFound,
    TallyError,
    ViewsUnavailable,
)
from tests.libs.catalogue.conftest import CRATES, LABELS, TABLE, TAGS
from tests.support.catalogue import Catalogue

CONTESTS, PARTICIPANTS = TABLE["contests"], TABLE["participants"]


async def test_what_was_written_is_read_at_once(catalogue: Catalogue, account: str) -> None:
    body = {"title": "One", "tags": [], "custom_data": {"empty": [], "none": None, "deep": {"a": {}}}}
    created = await catalogue.create("contests", account, body)
    read = await catalogue.record_service.get(CONTESTS, account, created.key)
    assert read == created
    assert read.document == body
    assert CONTESTS.show(read)["contest_config"]["ip_restriction_per_participant"] == 10


async def test_another_account_s_record_is_not_there(catalogue: Catalogue, account: str) -> None:
    stored = await catalogue.create("contests", account, {})
    for attempt in (
        catalogue.record_service.get(CONTESTS, "somebody", stored.key),
        catalogue.record_service.patch(CONTESTS, "somebody", stored.key, {"title": "x"}),
        catalogue.record_service.delete(CONTESTS, "somebody", stored.key),
        catalogue.create("participants", "somebody", {}, stored.key),
    ):
        with pytest.raises(NotFound):
            await attempt


async def test_a_whole_write_names_members_of_the_server_beside_all_other_faults(
    catalogue: Catalogue, account: str
) -> None:
    body = {"seal": {}, "closing": {}, "title": 7, "unheard": 1}
    for write in (
        catalogue.record_service.put(CONTESTS, account, "k", body, parent=""),
        catalogue.record_service.place(CONTESTS, account, "k", body, WriteRequest.once()),
    ):
        with pytest.raises(ValidationFailed) as caught:
            await write
        assert {each["pointer"] for each in caught.value.data["errors"]} == {f"/{name}" for name in body}


async def test_blank_titles_of_contests_and_participants_are_refused(catalogue: Catalogue, account: str) -> None:
    contest = await catalogue.create("contests", account, {"title": "Final"})
    for write in (
        catalogue.create("contests", account, {"title": " \u2003"}),
        catalogue.create("participants", account, {"title": ""}, contest.key),
        catalogue.record_service.patch(CONTESTS, account, contest.key, {"title": "\t"}),
    ):
        with pytest.raises(ValidationFailed) as caught:
            await write
        assert caught.value.data["errors"] == [{"pointer": "/title", "message": "must not be blank"}]
    assert (await catalogue.create("contests", account, {"title": None})).document.get("title") is None


async def test_a_patch_merges_objects_replaces_arrays_and_clears_by_null(
    catalogue: Catalogue, account: str
) -> None:
    body = {
        "title": "Old",
        "tags": ["a", "b"],
        "custom_data": {"kept": 1, "gone": 2, "deep": {"x": 1, "y": 2}},
        "contest_config": {"free": {"max_contest": 3}, "end": "2030-01-01T00:00:00Z"},
    }
    stored = await catalogue.create("contests", account, body)
    patch = {
        "title": None,
        "tags": ["c"],
        "custom_data": {"gone": None, "deep": {"y": 3}, "new": {"null": None}},
        "contest_config": {"free": {"max_participant": 2}},
        "key": "ignored",
        "created": "ignored",
    }
    changed = await catalogue.record_service.patch(CONTESTS, account, stored.key, patch)
    assert changed.document == {
        "tags": ["c"],
        "custom_data": {"kept": 1, "deep": {"x": 1, "y": 3}, "new": {}},
        "contest_config": {
            "free": {"max_contest": 3, "max_participant": 2},
            "end": "2030-01-01T00:00:00.000000Z",
        },
    }
    assert (changed.created, changed.key) == (stored.created, stored.key)
    assert changed.updated > stored.updated
    assert changed == await catalogue.record_service.get(CONTESTS, account, stored.key)


async def test_a_record_read_can_be_sent_back(catalogue: Catalogue, account: str) -> None:
    contest = await catalogue.create("contests", account, {"title": "One"})
    stored = await catalogue.create("participants", account, {"title": "P"}, contest.key)
    for row, one in ((CONTESTS, contest), (PARTICIPANTS, stored)):
        shown = row.show(one)
        back = await catalogue.record_service.patch(row, account, one.key, shown)
        assert row.show(back) | {"updated": None} == shown | {"updated": None}


async def test_a_patch_that_changes_nothing_keeps_the_version(catalogue: Catalogue, account: str) -> None:
    stored = await catalogue.create("contests", account, {"title": "One"})
    assert await catalogue.record_service.patch(CONTESTS, account, stored.key, {"title": "One"}) == stored


async def test_of_two_patches_with_the_same_precondition_one_loses(catalogue: Catalogue, account: str) -> None:
    stored = await catalogue.create("contests", account, {})

    def fits(found: Stored) -> bool:
        return found.version == stored.version

    results = await asyncio.gather(
        *(
            record_service.patch(CONTESTS, account, stored.key, {"title": str(number)}, fits)
            for number, record_service in enumerate([catalogue.record_service, catalogue.another_record_service()])
        ),
        return_exceptions=True,
    )
    assert [type(result) for result in results if isinstance(result, Exception)] == [VersionConflict]
    with pytest.raises(VersionConflict):
        await catalogue.record_service.delete(CONTESTS, account, stored.key, fits)


async def test_a_guarded_delete_and_a_guarded_patch_exclude_one_another(
    catalogue: Catalogue, account: str
) -> None:
    for _ in range(5):
        stored = await catalogue.create("contests", account, {})

        def fits(found: Stored, version: int = stored.version) -> bool:
            return found.version == version

        results = await asyncio.gather(
            catalogue.record_service.patch(CONTESTS, account, stored.key, {"title": "x"}, fits),
            catalogue.another_record_service().delete(CONTESTS, account, stored.key, fits),
            return_exceptions=True,
        )
        assert sum(isinstance(result, VersionConflict | NotFound) for result in results) == 1


async def test_patches_without_a_precondition_lose_nothing(catalogue: Catalogue, account: str) -> None:
    stored = await catalogue.create("contests", account, {})
    engines = [catalogue.record_service, catalogue.another_record_service(), catalogue.another_record_service()]
    await asyncio.gather(
        *(
            engines[number % 3].patch(CONTESTS, account, stored.key, {"custom_data": {str(number): number}})
            for number in range(12)
        )
    )
    read = await catalogue.record_service.get(CONTESTS, account, stored.key)
    assert read.document["custom_data"] == {str(number): number for number in range(12)}


async def test_running_numbers_have_no_gaps_and_no_doubles(catalogue: Catalogue, account: str) -> None:
    contest = await catalogue.create("contests", account, {})
    refused = catalogue.create("participants", account, {"status": "unknown"}, contest.key)
    results = await asyncio.gather(
        *(catalogue.create("participants", account, {}, contest.key) for _ in range(50)),
        refused,
        return_exceptions=True,
    )
    assert sorted(r.number for r in results if isinstance(r, Stored)) == list(range(1, 51))
    config = await catalogue.views.contest_config(account, contest.key)
    assert [stored.number for stored in config.participants] == list(range(1, 51))


async def test_a_refused_create_consumes_no_number(catalogue: Catalogue, account: str) -> None:
    crate = await catalogue.create("crates", account, {"shelves": [{"id": "top"}]})
    with pytest.raises(ValidationFailed):
        await catalogue.create("shelf_tags", account, {"shelf": "bottom"}, crate.key)
    assert (await catalogue.create("shelf_tags", account, {"shelf": "top"}, crate.key)).number == 1


async def test_deleting_a_contest_takes_its_participants_along(catalogue: Catalogue, account: str) -> None:
    contest = await catalogue.create("contests", account, {})
    participant = await catalogue.create("participants", account, {}, contest.key)
    await catalogue.record_service.delete(CONTESTS, account, contest.key)
    for row, stored in ((CONTESTS, contest), (PARTICIPANTS, participant)):
        with pytest.raises(NotFound):
            await catalogue.record_service.get(row, account, stored.key)
    assert await catalogue.views.find_owner("contests", contest.key) is None


async def test_no_participant_outlives_its_contest(catalogue: Catalogue, account: str) -> None:
    for _ in range(10):
        contest = await catalogue.create("contests", account, {})
        results = await asyncio.gather(
            catalogue.record_service.delete(CONTESTS, account, contest.key),
            *(catalogue.create("participants", account, {}, contest.key) for _ in range(3)),
            return_exceptions=True,
        )
        for made in results[1:]:
            assert isinstance(made, Stored | NotFound)
            if isinstance(made, Stored):
                assert await catalogue.views.get(account, "participants", made.key) is None


async def test_what_is_referred_to_firmly_cannot_go(catalogue: Catalogue, account: str) -> None:
    crate = await catalogue.create("crates", account, {})
    label = await catalogue.create("labels", account, {"crate": {"key": crate.key}})
    with pytest.raises(InUse) as caught:
        await catalogue.record_service.delete(CRATES, account, crate.key)
    assert caught.value.data["referrers"] == [{"resource": "labels", "key": label.key}]
    await catalogue.record_service.patch(LABELS, account, label.key, {"crate": None})
    await catalogue.record_service.delete(CRATES, account, crate.key)


async def test_a_reference_to_nothing_is_refused_by_its_pointer(catalogue: Catalogue, account: str) -> None:
    with pytest.raises(ValidationFailed) as caught:
        await catalogue.create("labels", account, {"crate": {"key": "nothing"}})
    assert caught.value.data["errors"][0]["pointer"] == "/crate/key"
    label = await catalogue.create("labels", account, {})
    with pytest.raises(ValidationFailed):
        await catalogue.record_service.patch(LABELS, account, label.key, {"crate": {"key": "nothing"}})


async def test_a_delete_cannot_race_a_new_reference(catalogue: Catalogue, account: str) -> None:
    for _ in range(10):
        crate = await catalogue.create("crates", account, {})
        deleted, label = await asyncio.gather(
            catalogue.record_service.delete(CRATES, account, crate.key),
            catalogue.create("labels", account, {"crate": {"key": crate.key}}),
            return_exceptions=True,
        )
        assert (deleted is None) != isinstance(label, Stored)


async def test_a_part_that_children_refer_to_cannot_be_taken_away(catalogue: Catalogue, account: str) -> None:
    crate = await catalogue.create("crates", account, {"shelves": [{"id": "top"}, {"id": "bottom"}]})
    tag = await catalogue.create("shelf_tags", account, {"shelf": "top"}, crate.key)
    with pytest.raises(InUse):
        await catalogue.record_service.patch(CRATES, account, crate.key, {"shelves": [{"id": "bottom"}]})
    await catalogue.record_service.delete(TAGS, account, tag.key)
    await catalogue.record_service.patch(CRATES, account, crate.key, {"shelves": [{"id": "bottom"}]})
    with pytest.raises(ValidationFailed):
        await catalogue.create("shelf_tags", account, {"shelf": "top"}, crate.key)
    await catalogue.record_service.delete(CRATES, account, crate.key)


async def test_a_status_never_goes_back_to_pending(catalogue: Catalogue, account: str) -> None:
    body = {"contest_config": {"participant_default_status": "pending"}}
    contest = await catalogue.create("contests", account, body)
    made = await catalogue.create("participants", account, {}, contest.key)
    assert PARTICIPANTS.show(made)["status"] == "pending"
    for status in ("rejected", "approved", "rejected"):
        made = await catalogue.record_service.patch(PARTICIPANTS, account, made.key, {"status": status})
        assert PARTICIPANTS.show(made)["status"] == status
    with pytest.raises(StatusTransition):
        await catalogue.record_service.patch(PARTICIPANTS, account, made.key, {"status": "pending"})


async def test_a_record_sent_twice_is_made_once(catalogue: Catalogue, account: str) -> None:
    event = RecordCreated(
        account=account, command_id=WriteRequest.once().command_id, at=1, resource="contests", key="k", record="{}"
    )
    first = await catalogue.writer.record(event)
    again = await catalogue.writer.record(event)
    assert first.kind is OutcomeKind.OK
    assert again == first


async def test_an_idempotency_key_makes_one_record_however_often_it_is_sent(
    catalogue: Catalogue, account: str
) -> None:
    asked = WriteRequest.repeatable(account, "POST", "/contests", "key-1", b'{"title": "x"}')
    engines = [catalogue.record_service, catalogue.another_record_service()]
    results = await asyncio.gather(
        *(engines[n % 2].create(CONTESTS, account, {"title": "x"}, asked) for n in range(20))
    )
    assert len({written.stored.key for written in results}) == 1
    assert sum(not written.replayed for written in results) == 1
    made = results[0].stored
    await catalogue.record_service.patch(CONTESTS, account, made.key, {"title": "changed"})
    later = await catalogue.record_service.create(CONTESTS, account, {"title": "x"}, asked)
    assert (later.replayed, later.stored.document) == (True, {"title": "x"})
    other = WriteRequest.repeatable(account, "POST", "/contests", "key-1", b'{"title": "y"}')
    with pytest.raises(IdempotencyKeyReused):
        await catalogue.record_service.create(CONTESTS, account, {"title": "y"}, other)


async def test_a_key_of_the_account_s_own_is_taken_once_by_many_processes(
    catalogue: Catalogue, account: str
) -> None:
    engines = [catalogue.record_service, catalogue.another_record_service()]
    for number in range(5):
        placed = await asyncio.gather(
            *(
                record_service.place(CRATES, account, f"k{number}", {"title": title}, WriteRequest.once())
                for title, record_service in zip("ab", engines, strict=True)
            )
        )
        first, second = sorted((written.stored for written in placed), key=lambda stored: stored.version)
        assert first.created == first.updated == second.created < second.updated
        assert second == await catalogue.record_service.get(CRATES, account, f"k{number}")


async def test_a_placing_sent_again_by_its_idempotency_key_takes_effect_once(
    catalogue: Catalogue, account: str
) -> None:
    engines = [catalogue.record_service, catalogue.another_record_service()]
    for number in range(5):
        asked = WriteRequest.repeatable(account, "POST", f"/crates/k{number}", "key", b"{}")
        both = await asyncio.gather(*(one.place(CRATES, account, f"k{number}", {}, asked) for one in engines))
        assert both[0].stored == both[1].stored
        await catalogue.record_service.patch(CRATES, account, f"k{number}", {"title": "changed"})
        later = await engines[1].place(CRATES, account, f"k{number}", {}, asked)
        assert (later.stored, later.replayed) == (both[0].stored, True)


async def test_a_request_that_lost_a_race_is_known_by_its_last_command(catalogue: Catalogue, account: str) -> None:
    """It changed a version that had passed, and then the one that had come."""
    asked = WriteRequest.repeatable(account, "POST", "/crates/k", "key", b"{}")
    made = await catalogue.record_service.place(CRATES, account, "k", {}, WriteRequest.once())
    await catalogue.record_service.patch(CRATES, account, "k", {"title": "meanwhile"})
    lost = RecordChanged(
        account=account,
        command_id=asked.command_id,
        content=asked.content,
        at=1,
        resource="crates",
        key="k",
        record="{}",
        expected_version=made.stored.version,
    )
    assert (await catalogue.writer.record(lost)).kind is OutcomeKind.CONFLICT
    placed, again = [await catalogue.record_service.place(CRATES, account, "k", {}, asked) for _ in range(2)]
    assert (placed.replayed, again.replayed, again.stored) == (False, True, placed.stored)
    other = WriteRequest(asked.command_id, "other content")
    with pytest.raises(IdempotencyKeyReused):
        await catalogue.record_service.place(CRATES, account, "k", {"title": "x"}, other)


@pytest.mark.parametrize("key", ["", "a b", "a/b", "x" * 131, "k\n", ".", ".."])
async def test_what_is_no_key_takes_no_record(catalogue: Catalogue, account: str, key: str) -> None:
    with pytest.raises(ValidationFailed):
        await catalogue.record_service.place(CRATES, account, key, {}, WriteRequest.once())


@pytest.mark.parametrize("key", ["\0", "x" * 401])
async def test_what_no_record_can_be_called_never_gets_into_the_log(
    catalogue: Catalogue, account: str, key: str
) -> None:
    with pytest.raises(ValidationFailed) as caught:
        await catalogue.create("labels", account, {"crate": {"key": key}})
    assert caught.value.data["errors"][0]["pointer"] == "/crate/key"


async def test_a_view_destroyed_and_folded_again_is_the_same(catalogue: Catalogue, account: str) -> None:
    contest = await catalogue.create("contests", account, {"title": "x"})
    made = [await catalogue.create("participants", account, {}, contest.key) for _ in range(3)]
    before = await catalogue.views.contest_config(account, contest.key)
    await catalogue.destroy_view(account)
    with pytest.raises(ViewsUnavailable):
        await catalogue.views.contest_config(account, contest.key)
    await catalogue.create("contests", account, {})  # the projector looks when there is something to fold
    assert await catalogue.views.get(account, "participants", made[-1].key) == made[-1]
    assert await catalogue.views.contest_config(account, contest.key) == before


class TroubledLog:
    """A log whose acknowledgements get lost, or that takes nothing."""

    def __init__(self, catalogue: Catalogue, error: TallyError, *, takes: bool) -> None:
        self._catalogue, self._error, self._takes = catalogue, error, takes

    async def append(
        self,
        topic: str,
        partition: int,
        value: bytes,
        key: bytes | None = None,
        *,
        deadline_s: float | None = None,
    ) -> Appended:
        if self._takes:
            await self._catalogue.log.append(topic, partition, value, key)
        raise self._error


def engine_over(catalogue: Catalogue, error: TallyError, *, takes: bool) -> RecordService:
    log = TroubledLog(catalogue, error, takes=takes)
    writer = CommandWriter(catalogue.topic, log, catalogue.views, AppendUnknown, deadline_s=5 if takes else 0.3)
    return RecordService(TABLE, catalogue.views, writer)


async def test_an_unknown_append_is_answered_by_the_fold(catalogue: Catalogue, account: str) -> None:
    record_service = engine_over(catalogue, AppendUnknown("lost"), takes=True)
    written = await record_service.create(CONTESTS, account, {}, WriteRequest.once())
    assert await catalogue.record_service.get(CONTESTS, account, written.stored.key) == written.stored


async def test_an_append_that_stays_unknown_is_said_to_be(catalogue: Catalogue, account: str) -> None:
    record_service = engine_over(catalogue, AppendUnknown("lost"), takes=False)
    with pytest.raises(ViewsUnavailable, match="may have been recorded"):
        await record_service.create(CONTESTS, account, {}, WriteRequest.once())


async def test_a_log_that_takes_nothing_is_said_to_be_away(catalogue: Catalogue, account: str) -> None:
    record_service = engine_over(catalogue, NotAppended("away"), takes=False)
    with pytest.raises(LogUnavailable):
        await record_service.create(CONTESTS, account, {}, WriteRequest.once())
