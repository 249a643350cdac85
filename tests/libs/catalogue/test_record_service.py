"""Records on the real log and views: read your writes, merge, races, cascades, references."""

import asyncio

import pytest

from libs.catalogue.commands import WriteRequest
from libs.catalogue.errors import StatusTransition, VersionConflict
from libs.catalogue.resource_definition import Fits
from libs.contracts.catalogue_events import Stored
from libs.contracts.validation import ValidationFailed
from libs.tally.errors import NotFound
from tests.libs.catalogue.conftest import CRATES, TABLE
from tests.support.builders.catalogue import Catalogue

CONTESTS, PARTICIPANTS = TABLE["contests"], TABLE["participants"]


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
    """Also those of characters that nobody sees."""
    contest = await catalogue.create("contests", account, {"title": "Final"})
    for write in (
        catalogue.create("participants", account, {"title": "\u200b\u2800\u3164"}, contest.key),
        catalogue.create("contests", account, {"title": " \u2003"}),
        catalogue.create("participants", account, {"title": ""}, contest.key),
        catalogue.record_service.patch(CONTESTS, account, contest.key, {"title": "\t"}),
    ):
        with pytest.raises(ValidationFailed) as caught:
            await write
        assert caught.value.data["errors"] == [{"pointer": "/title", "message": "must have a visible character"}]
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
        "titled": {"at": changed.updated, "by": ""},
    }
    assert (changed.created, changed.key) == (stored.created, stored.key)
    assert changed.updated > stored.updated
    assert changed == await catalogue.record_service.get(CONTESTS, account, stored.key)


async def test_a_patch_that_changes_nothing_keeps_the_version(catalogue: Catalogue, account: str) -> None:
    stored = await catalogue.create("contests", account, {"title": "One"})
    assert await catalogue.record_service.patch(CONTESTS, account, stored.key, {"title": "One"}) == stored


@pytest.mark.parametrize("is_delete", [False, True])
async def test_of_two_writes_with_the_same_precondition_one_loses(
    catalogue: Catalogue, account: str, is_delete: bool
) -> None:
    other = catalogue.another_record_service()
    for _ in range(5):
        stored = await catalogue.create("contests", account, {})

        def fits(found: Stored, version: int = stored.version) -> bool:
            return found.version == version

        of_other = (
            other.delete(CONTESTS, account, stored.key, fits)
            if is_delete
            else other.patch(CONTESTS, account, stored.key, {"title": "y"}, fits)
        )
        patch = catalogue.record_service.patch(CONTESTS, account, stored.key, {"title": "x"}, fits)
        results = await asyncio.gather(patch, of_other, return_exceptions=True)
        assert sum(isinstance(result, VersionConflict | NotFound) for result in results) == 1


@pytest.mark.parametrize("fits", [None, lambda _: True], ids=["without", "of any version, as by If-Match: *"])
async def test_patches_that_fit_every_version_lose_nothing(
    catalogue: Catalogue, account: str, fits: Fits | None
) -> None:
    stored = await catalogue.create("contests", account, {})
    engines = [catalogue.record_service, catalogue.another_record_service(), catalogue.another_record_service()]
    await asyncio.gather(
        *(
            engines[number % 3].patch(CONTESTS, account, stored.key, {"custom_data": {str(number): number}}, fits)
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


async def test_a_delete_cannot_race_a_new_reference(catalogue: Catalogue, account: str) -> None:
    for _ in range(10):
        crate = await catalogue.create("crates", account, {})
        deleted, label = await asyncio.gather(
            catalogue.record_service.delete(CRATES, account, crate.key),
            catalogue.create("labels", account, {"crate": {"key": crate.key}}),
            return_exceptions=True,
        )
        assert (deleted is None) != isinstance(label, Stored)


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
