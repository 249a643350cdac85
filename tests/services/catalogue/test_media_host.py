"""Pictures at the media host: renditions, access and environments."""

import asyncio
import io

import httpx
import pytest

from libs.catalogue.commands import WriteRequest
from libs.media.decoder_pool import Decoders
from libs.media.images import Images
from tests.services.catalogue.conftest import Place
from tests.services.catalogue.image_uploads import NO_FETCHER, media_code, uploaded
from tests.support.pictures import is_red, opened, picture
from tests.support.voting import code


async def test_renditions_never_enlarge_and_are_kept_once_made(place: Place, client: httpx.AsyncClient) -> None:
    given, sizes = (400, 1000), {"thumb": (60, 150), "default": (320, 800), "large": (400, 1000)}
    key = (await uploaded(client, picture("jpg", *given)))["key"]
    found = {size: await client.get(f"/media/image/{key}", params={"size": size}) for size in sizes}
    assert {size: opened(answer.content).size for size, answer in found.items()} == sizes
    assert (await client.get(f"/media/image/{key}/")).content == found["default"].content
    made = {size for size, shown in sizes.items() if shown != given}
    assert set(await place.names(key)) == {"original", *made}
    assert len({answer.headers["etag"] for answer in found.values()}) == 3


async def test_all_who_ask_at_once_have_one_rendition_made(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    shrink = Decoders.shrink

    async def counted(decoders: Decoders, data: bytes, name: str, longest: int) -> bytes:
        made.append(longest)
        return await shrink(decoders, data, name, longest)

    monkeypatch.setattr(Decoders, "shrink", counted)
    key = (await uploaded(client, picture("png", 1000, 500)))["key"]
    answers = await asyncio.gather(*(client.get(f"/media/image/{key}?size=thumb") for _ in range(20)))
    assert made == [150]
    assert len({answer.content for answer in answers}) == 1
    assert is_red(opened(answers[0].content).getpixel((5, 5)))


async def test_a_private_picture_is_for_keys_of_its_account(place: Place, client: httpx.AsyncClient) -> None:
    account = client.headers["x-account"]
    path = f"/media/image/{(await uploaded(client, access={'access': 'private'}))['key']}"
    own = await client.get(path)
    assert (own.status_code, own.headers["cache-control"]) == (200, "private, no-cache")
    async with (
        place.anonymous() as anonymous,
        place.client() as stranger,
        place.client("content:write", account=account) as writer,
        place.client("content:read", account=account) as reader,
    ):
        assert media_code(await anonymous.get(path)) == (401, "unauthorized")
        assert media_code(await anonymous.get(path, headers={"If-None-Match": own.headers["etag"]})) == (
            401,
            "unauthorized",
        )
        assert media_code(await stranger.get(path)) == (400, "not_found")
        assert media_code(await writer.get(path)) == (400, "forbidden")
        assert (await reader.get(path)).content == own.content
        token = reader.headers["authorization"].removeprefix("Bearer ")
        pair = {"service-brand": account, "service-key": token}
        assert (await anonymous.get(path, headers=pair)).status_code == 200
        assert media_code(await anonymous.get(path, headers=pair | {"service-brand": "other"})) == (
            401,
            "unauthorized",
        )


async def test_the_media_host_shows_pictures_of_the_test_environment_too(place: Place) -> None:
    environment = place.environments["test"]
    images = Images(environment.record_service, place.image_store("test"), NO_FETCHER)
    private = {"access": {"access": "private"}}
    keys = [
        (await images.upload("a", io.BytesIO(picture()), body, WriteRequest.once())).stored.key
        for body in ({}, private)
    ]
    async with (
        place.anonymous() as anonymous,
        place.client(account="a", environment="test") as own,
        place.client(account="a") as namesake,
    ):
        assert (await anonymous.get(f"/media/image/{keys[0]}")).status_code == 200
        assert (await own.get(f"/media/image/{keys[1]}")).status_code == 200
        for caller in (anonymous, namesake):
            assert media_code(await caller.get(f"/media/image/{keys[1]}")) == (401, "unauthorized")
        assert code(await namesake.get(f"/images/{keys[0]}")) == (404, "not_found")
    assert await place.names(keys[0], "test") == ["original"]


async def test_private_pictures_of_what_results_show_are_for_keys_that_may_read_results(
    place: Place, client: httpx.AsyncClient
) -> None:
    account = client.headers["x-account"]
    alone, of_contest, of_participant, logo, of_article = [
        (await uploaded(client, access={"access": "private"}))["key"] for _ in range(5)
    ]
    contest = await client.post("/contests", json={"title": "Final", "image": {"key": of_contest}})
    path = f"/contests/{contest.json()['key']}/participants"
    for made in (
        contest,
        await client.post(path, json={"title": "Ada", "image_key": of_participant}),
        await client.patch("/account", json={"looks": {"logo_key": logo}}),
        await client.post("/articles", json={"title": "News", "image": {"key": of_article}}),
    ):
        assert made.is_success, made.text
    async with place.client("results:read", account=account) as reader, place.client("results:read") as stranger:
        for key in (of_contest, of_participant, logo):
            assert (await reader.get(f"/media/image/{key}")).status_code == 200
            assert media_code(await stranger.get(f"/media/image/{key}")) == (400, "forbidden")
        for key in (alone, of_article):
            assert media_code(await reader.get(f"/media/image/{key}")) == (400, "forbidden")
        assert (await reader.get("/account")).json()["looks"]["logo_key"] == logo
        assert code(await reader.patch("/account", json={"brand_name": "x"})) == (403, "forbidden")
