"""The settings of an account: the brand of its legacy records, and the looks of its pages."""

from __future__ import annotations

import httpx

from libs.local_stack.supervisor import Supervisor
from tests.support.builders.pictures import picture
from tests.support.clients.stack_keys import client_with
from tests.support.clients.voting import Api, code, new_id


async def test_the_settings_of_a_new_account_are_its_defaults(stack: Supervisor) -> None:
    account = f"a{new_id()}"
    async with await client_with(stack, account, "content:read", "content:write") as client:
        read = await client.get("/account")
        looks = ("logo_key", "primary_color", "secondary_color", "background_color", "text_color")
        assert read.json() == {
            "account": account,
            "brand_name": account,
            "image_key": None,
            "looks": dict.fromkeys(looks),
            "created": None,
            "updated": None,
        }
        changed = await client.patch("/account", json={"looks": {"primary_color": "ff8800"}})
        assert (changed.status_code, changed.json()["looks"]["primary_color"]) == (200, "ff8800")
        again = await client.get("/account", headers={"If-None-Match": changed.headers["etag"]})
        assert again.status_code == 304
        stale = {"If-Match": '"0"'}
        assert code(await client.patch("/account", json={}, headers=stale)) == (412, "version_conflict")
        sent_back = await client.patch("/account", json=changed.json())
        updated = {"updated": sent_back.json()["updated"]}
        assert (sent_back.status_code, sent_back.json()) == (200, changed.json() | updated)
    async with await client_with(stack, account, "content:read") as reader:
        assert code(await reader.patch("/account", json={})) == (403, "forbidden")


async def test_what_is_no_setting_is_refused(api: Api) -> None:
    for body, pointer in [
        ({"brand_name": ""}, "/brand_name"),
        ({"colour": "red"}, "/colour"),
        ({"looks": {"text_color": "red"}}, "/looks/text_color"),
        ({"image_key": "none"}, "/image_key"),
        ({"looks": {"logo_key": "none"}}, "/looks/logo_key"),
    ]:
        answer = await api.client.patch("/account", json=body)
        assert answer.status_code == 422, answer.text
        assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


async def test_legacy_records_show_the_brands_name_and_image(
    api: Api, legacy: httpx.AsyncClient, legacy_test: httpx.AsyncClient
) -> None:
    made = await api.client.post("/images", files={"file": ("a.png", picture("png", 8, 8))})
    image, account = made.json()["key"], legacy.headers["service-brand"]
    settings = {"brand_name": "Music Channel", "image_key": image}
    assert (await api.client.patch("/account", json=settings)).status_code == 200
    try:
        assert code(await api.client.delete(f"/images/{image}")) == (409, "in_use")
        brand = {"brand_id": account, "brand_name": "Music Channel", "image_id": image}
        entry = {"title": "Ann", "image_id": image}
        contest = (await legacy.post("/contests", json={"published": True, "add_participants": [entry]})).json()
        path = f"/contests/{contest['contest_id']}"
        listed = (await legacy.get(f"/brands/{account}/contests")).json()["contests"]
        for shape in (contest, (await legacy.get(path)).json(), listed[0]):
            [participant] = shape["participants"]
            assert shape["brand"] == participant["brand"] == participant["image"]["brand"] == brand
        assert (await legacy.get(f"/images/{image}")).json()["brand"] == brand
        other = (await legacy_test.post("/contests", json={})).json()["brand"]
        test_brand = legacy_test.headers["service-brand"]
        assert other == {"brand_id": test_brand, "brand_name": test_brand, "image_id": None}
    finally:
        reset = {"brand_name": None, "image_key": None}
        assert (await api.client.patch("/account", json=reset)).status_code == 200
    assert (await api.client.delete(f"/images/{image}")).status_code in (204, 409)
