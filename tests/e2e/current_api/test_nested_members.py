"""Nested members that the server assigns: keys and times of packages, times of access and cloud settings."""

from typing import Any

import pytest

from tests.e2e.current_api.records import Records
from tests.support.clients.http_clients import ok

TEN: dict[str, Any] = {"title": "Ten votes", "vote_count": 10}
LONG_AGO = "2001-01-01T00:00:00.000000Z"


async def packages(records: Records, key: str, sent: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return ok(await records.patch("shops", key, {"packages": sent}))["packages"]


@pytest.mark.secured
async def test_packages_keep_keys_and_times_as_long_as_they_are_what_they_were(records: Records) -> None:
    shop = await records.made("shops", {"packages": [TEN, TEN | {"title": "Twelve"}]})
    ten, twelve = shop["packages"]
    assert ten["key"] != twelve["key"]
    assert ten["created"] == ten["updated"]
    changed = await packages(records, shop["key"], [twelve | {"price": 5}, TEN, ten])
    assert [changed[0]["key"], changed[2]] == [twelve["key"], ten]
    assert changed[0]["created"] == twelve["created"] == twelve["updated"] < changed[0]["updated"]
    assert changed[1]["key"] not in (ten["key"], twelve["key"])
    assert changed[1]["created"] > ten["created"]
    bare = await packages(records, shop["key"], [{"key": ten["key"]} | TEN])
    assert bare == [ten]
    elsewhere = await records.patch("shops", shop["key"], {"title": "Votes"})
    assert elsewhere.json()["packages"] == [ten]


async def test_a_package_s_key_is_known_and_there_once(records: Records) -> None:
    shop = await records.made("shops", {"packages": [TEN | {"key": "mine"}]})
    [ten] = shop["packages"]
    assert ten["key"] != "mine"
    for sent, where in (([TEN, TEN | {"key": "mine"}], "/packages/1/key"), ([ten, ten], "/packages/1/key")):
        answer = await records.patch("shops", shop["key"], {"packages": sent})
        assert [error["pointer"] for error in answer.json()["errors"]] == [where]
    await packages(records, shop["key"], [])
    gone = await records.patch("shops", shop["key"], {"packages": [ten]})
    assert gone.status_code == 422


async def test_cloud_settings_say_when_they_were_changed_last(records: Records) -> None:
    app = await records.made("apps", {"config": {"is_data_service_enabled": True}})
    assert app["config"]["cloud_settings"] == {"region": None, "updated": None}

    async def settings(patch: dict[str, Any]) -> dict[str, Any]:
        answer = await records.patch("apps", app["key"], {"config": patch})
        return answer.json()["config"]["cloud_settings"]

    untouched = await settings({"cloud_settings": {"region": None, "updated": LONG_AGO}})
    assert untouched == {"region": None, "updated": None}
    first = await settings({"cloud_settings": {"region": "north", "updated": "nonsense"}})
    assert first["updated"] > app["created"]
    assert await settings({"is_data_service_enabled": False, "cloud_settings": {"updated": LONG_AGO}}) == first
    second = await settings({"cloud_settings": {"region": "south"}})
    assert second["updated"] > first["updated"]


async def test_access_says_when_it_was_changed_last(records: Records) -> None:
    body = {"filename": "a", "file_extension": "txt", "file_type": "text/plain", "access": {"updated": LONG_AGO}}
    made = await records.made("files", body)
    assert made["access"]["access"] == "private"
    assert made["access"]["updated"] > LONG_AGO
    same = await records.patch("files", made["key"], {"description": "x", "access": {"updated": None}})
    assert same.json()["access"] == made["access"]
    public = await records.patch("files", made["key"], {"access": {"access": "public"}})
    assert public.json()["access"]["access"] == "public"
    assert public.json()["access"]["updated"] > made["access"]["updated"]
