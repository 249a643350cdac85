"""Images over HTTP: uploaded, fetched, shown at the media host with their renditions, deleted."""

import asyncio
import io
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from libs.catalogue.commands import CommandWriter, WriteRequest
from libs.catalogue.records import RecordService
from libs.catalogue.resource_table import IMAGES, RESOURCES
from libs.local_stack.servers import Servers
from libs.media.decoder_pool import Decoders
from libs.media.image_store import StoredPicture
from libs.media.images import Images
from libs.storage.object_store import environment_files
from libs.tally.errors import ViewsUnavailable
from tests.services.catalogue.conftest import MAX_BYTES, Place
from tests.services.catalogue.image_uploads import NO_FETCHER, legacy_code, pointers, upload, uploaded
from tests.support.builders.catalogue import open_catalogue
from tests.support.builders.pictures import bomb, is_red, opened, picture
from tests.support.clients.voting import code
from tests.support.eventually import eventually
from tests.support.servers.web_host import WebHost


@pytest.mark.parametrize(
    ("name", "media_type"),
    [("jpg", "image/jpeg"), ("png", "image/png"), ("webp", "image/webp"), ("gif", "image/gif")],
)
async def test_an_image_from_its_upload_to_its_end(
    place: Place, client: httpx.AsyncClient, name: str, media_type: str
) -> None:
    made = await upload(client, picture(name, 300, 200), f"summer.{name}")
    assert made.status_code == 201
    image, where = made.json(), made.headers["location"]
    public = {"access": "public", "updated": image["created"]}
    of_picture = {"title": "summer", "format": name, "ratio": 1.5, "custom_data": {}, "access": public}
    assert image == image | of_picture
    members = {"key", "created", "updated", "image_text", "public_use", "is_icon", "tags", "url", "sizes"}
    assert set(image) == of_picture.keys() | members
    assert where == f"/images/{image['key']}"
    read = await client.get(where)
    assert (read.status_code, read.json(), read.headers["etag"]) == (200, image, made.headers["etag"])
    async with place.anonymous() as anonymous:
        shown = await anonymous.get(f"/media/image/{image['key']}")
        assert (shown.status_code, shown.headers["content-type"]) == (200, media_type)
        assert shown.headers["x-content-type-options"] == "nosniff"
        assert opened(shown.content).size == (300, 200)
        assert (await client.delete(where)).status_code == 204
        assert code(await client.get(where)) == (404, "not_found")
        assert code(await client.delete(where)) == (404, "not_found")
        assert legacy_code(await anonymous.get(f"/media/image/{image['key']}")) == (400, "not_found")
    assert await place.names(image["key"]) == []


async def test_title_access_tags_and_custom_data_can_be_changed(client: httpx.AsyncClient) -> None:
    image = await uploaded(client, title="Stage", custom_data={"a": 1})
    where = f"/images/{image['key']}"
    changes = {"title": "Hall", "access": {"access": "private"}, "tags": ["x"], "custom_data": {"b": 2}}
    changed = await client.patch(where, json=changes)
    assert changed.status_code == 200, changed.text
    found = changed.json()
    assert (found["title"], found["tags"], found["custom_data"]) == ("Hall", ["x"], {"a": 1, "b": 2})
    assert (found["access"]["access"], found["url"]) == ("private", image["url"])
    read = await client.get(where)
    assert (read.json(), read.headers["etag"]) == (found, changed.headers["etag"])
    sent_back = (await client.patch(where, json=found)).json()
    assert sent_back | {"updated": None} == found | {"updated": None}
    stale = await client.patch(where, json={"title": "x"}, headers={"If-Match": f'"{image["key"]}"'})
    assert code(stale) == (412, "version_conflict")
    for name, value in (("is_icon", True), ("picture", {})):
        assert pointers(await client.patch(where, json={name: value})) == (422, [f"/{name}"])


async def test_the_address_changes_with_the_picture_and_only_the_current_one_may_be_cached(
    client: httpx.AsyncClient, host: WebHost
) -> None:
    image = await uploaded(client, picture("png", 30, 20))
    other = {"url": host.respond("/b.jpg", picture("jpg", 20, 30))}
    replaced = await client.post(f"/legacy/images/{image['key']}", data=other)
    assert replaced.status_code == 200, replaced.text
    before, after = image["url"], (await client.get(f"/images/{image['key']}")).json()["url"]
    assert before != after
    old, new, bare = [await client.get(url) for url in (before, after, f"/media/image/{image['key']}")]
    assert old.content == new.content == bare.content
    assert new.headers["cache-control"] == "public, max-age=86400"
    assert old.headers["cache-control"] == bare.headers["cache-control"] == "public, max-age=300"
    assert old.headers["etag"] == new.headers["etag"]


async def test_a_picture_stays_where_its_record_may_yet_come(
    place: Place, servers: Servers, namespace: str
) -> None:
    addresses = servers.addresses
    async with open_catalogue(addresses.kafka, addresses.valkey, namespace) as unfolded:
        place.environments["unfolded"] = unfolded
        writer = CommandWriter(unfolded.topic, unfolded.log, unfolded.views, deadline_s=0.2)
        images = Images(
            RecordService(RESOURCES, unfolded.views, writer), place.image_store("unfolded"), NO_FETCHER
        )
        with pytest.raises(ViewsUnavailable):
            await images.upload("a", io.BytesIO(picture()), {}, WriteRequest.once())
        [name] = await place.store.names(environment_files(namespace))
        async with unfolded.folding():
            key = name.split("/")[-3]
            assert (await eventually(lambda: unfolded.views.get("a", "images", key))) is not None
            kept = StoredPicture.of((await unfolded.record_service.get(IMAGES, "a", key)).document)
            assert await place.image_store("unfolded").show("a", key, kept, "thumb") is not None


async def test_what_was_read_of_an_image_can_be_sent_with_another(
    client: httpx.AsyncClient, host: WebHost
) -> None:
    read = await uploaded(client, title="Stage", custom_data={"a": [1]}, tags=["x"])
    own = {name: read[name] for name in ("title", "access", "custom_data", "tags")} | {"access": {}}
    body = read | {"url": host.respond("/a.gif", picture("gif")), "format": "jpg"}
    fetched = await client.post("/images/upload_from_url", json=body)
    assert fetched.status_code == 201, fetched.text
    for image in (await uploaded(client, **read), fetched.json()):
        assert image["key"] != read["key"]
        assert {name: image[name] for name in own} | {"access": {}} == own
    assert fetched.json()["format"] == "gif"


@pytest.mark.parametrize(
    ("parts", "pointer"),
    [
        ({"thumbnail": ["a"]}, "/thumbnail"),
        ({"picture": {}}, "/picture"),
        ({"access": {"access": "secret"}}, "/access/access"),
        ({"access": "private"}, "/access"),
        ({"custom_data": "{"}, "/custom_data"),
        ({"custom_data": '{"n": [18446744073709551616]}'}, "/custom_data/n/0"),
        ({"custom_data": '{"n": -9223372036854775809}'}, "/custom_data/n"),
        ({"custom_data": "[" * 101 + "]" * 101}, "/custom_data"),
    ],
)
async def test_what_cannot_be_said_of_an_image_is_named(
    client: httpx.AsyncClient, parts: dict[str, Any], pointer: str
) -> None:
    for headers in ({}, {"Idempotency-Key": "one"}):
        assert pointers(await upload(client, picture(), headers=headers, **parts)) == (422, [pointer])


async def test_the_name_of_a_file_is_its_title_and_nothing_more(client: httpx.AsyncClient) -> None:
    for name, title in [
        ("a/b\\../x.tar.png", "x.tar"),
        ("Grüße.gif", "Grüße"),
        (".png", ".png"),
        ("x" * 300, "x" * 255),
    ]:
        image = (await upload(client, picture("jpg"), name)).json()
        assert (image["title"], image["format"]) == (title, "jpg")


@pytest.mark.parametrize("data", [b"", bomb(3_000, 3_000)])
async def test_what_is_no_picture_is_refused_and_not_kept(
    place: Place, client: httpx.AsyncClient, data: bytes
) -> None:
    before = await place.store.names("worlds")
    assert pointers(await upload(client, data)) == (422, ["/file"])
    assert await place.store.names("worlds") == before


async def test_a_form_without_a_file_is_refused(client: httpx.AsyncClient) -> None:
    photo = await client.post("/images", files={"photo": ("a.png", picture())})
    assert pointers(photo) == (422, ["/file", "/photo"])
    as_text = {"content-type": "multipart/form-data; boundary=x"}
    body = b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\nabc\r\n--x--\r\n'
    assert pointers(await client.post("/images", content=body, headers=as_text)) == (422, ["/file"])
    two = [("file", ("a.png", picture())), ("file", ("b.png", picture()))]
    assert (await client.post("/images", files=two)).status_code == 422
    for content_type in ("multipart/form-data", "multipart/form-data; boundary=y"):
        broken = await client.post("/images", content=body, headers={"content-type": content_type})
        assert code(broken) == (422, "validation_failed"), broken.text
    assert code(await client.post("/images", json={"file": "x"})) == (415, "unsupported_media_type")
    assert code(await client.post("/images", content=picture())) == (415, "unsupported_media_type")


async def test_a_picture_can_be_too_large(client: httpx.AsyncClient) -> None:
    for size in (MAX_BYTES + 1, 3_000_000):
        assert code(await upload(client, b"x" * size)) == (413, "payload_too_large")
    sent = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal sent
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        for _ in range(1_000):
            sent += 100_000
            yield b"x" * 100_000

    form = {"content-type": "multipart/form-data; boundary=x"}
    assert code(await client.post("/images", content=chunks(), headers=form)) == (413, "payload_too_large")
    assert sent < 3_000_000
    padded = picture() + b"x" * (MAX_BYTES - len(picture()))
    assert (await upload(client, padded)).status_code == 201


async def test_an_idempotency_key_covers_the_bytes(place: Place, client: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "one"}
    first, second = await asyncio.gather(*(upload(client, picture(), headers=key) for _ in range(2)))
    third = await upload(client, picture(), headers=key)
    assert first.json() == second.json() == third.json()
    assert third.headers["idempotent-replayed"] == "true"
    for other in (
        upload(client, picture("jpg"), headers=key),
        upload(client, picture(), "other.png", headers=key),
    ):
        assert code(await other) == (422, "idempotency_key_reused")
    account = client.headers["x-account"]
    [kept] = [name for name in await place.store.names("worlds") if f"/{account}/" in name]
    assert first.json()["key"] in kept


async def test_a_picture_is_fetched_once_by_requests_of_one_key(client: httpx.AsyncClient, host: WebHost) -> None:
    body, key = {"url": host.respond("/a/Main%20stage.png", picture("jpg", 60, 20))}, {"Idempotency-Key": "one"}
    made = await client.post("/images/upload_from_url", json=body, headers=key)
    image = made.json()
    assert (made.status_code, image["title"], image["format"], image["ratio"]) == (201, "Main stage", "jpg", 3.0)
    assert made.headers["location"] == f"/images/{image['key']}"
    moved = host.respond("/moved", status="302 Found", Location="/a/Main%20stage.png")
    private = {"url": moved, "title": "Other", "access": {"access": "private"}}
    other = (await client.post("/images/upload_from_url", json=private)).json()
    assert (other["title"], other["access"]["access"]) == ("Other", "private")
    host.respond("/a/Main%20stage.png", b"gone", "410 Gone")
    again = await client.post("/images/upload_from_url", json=body, headers=key)
    assert (again.status_code, again.json()) == (201, image)
    assert again.headers["idempotent-replayed"] == "true"
    assert len(host.heads) == 3


async def test_what_cannot_be_fetched_is_refused(client: httpx.AsyncClient, host: WebHost) -> None:
    metadata = host.respond("/metadata", status="302 Found", Location="http://169.254.169.254/latest")
    large = host.respond("/large", b"x" * (MAX_BYTES + 1))
    page = host.respond("/page", b"<html>")
    for url in (None, "ftp://127.0.0.1/", "http://10.0.0.1/", metadata, large, page):
        refused = await client.post("/images/upload_from_url", json={"url": url})
        assert pointers(refused) == (422, ["/url"]), url
    fine = host.respond("/a.png", picture())
    unknown = await client.post("/images/upload_from_url", json={"url": fine, "src": "x"})
    assert pointers(unknown) == (422, ["/src"])
    assert not [head for head in host.heads if "/a.png" in head]


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
        token = reader.headers["authorization"].removeprefix("Bearer ")
        pair = {"service-brand": account, "service-key": token}
        assert (await anonymous.get(path, headers=pair)).status_code == 200
        known = {"If-None-Match": own.headers["etag"]}
        for headers in ({}, known, pair | {"service-brand": "other"}):
            assert legacy_code(await anonymous.get(path, headers=headers)) == (401, "unauthorized")
        assert legacy_code(await stranger.get(path)) == (400, "not_found")
        assert legacy_code(await writer.get(path)) == (400, "forbidden")
        assert (await reader.get(path)).content == own.content


async def test_the_media_host_shows_pictures_of_the_test_environment_too(place: Place) -> None:
    environment = place.environments["test"]
    images = Images(environment.record_service, place.image_store("test"), NO_FETCHER)
    public, private = [
        (await images.upload("a", io.BytesIO(picture()), body, WriteRequest.once())).stored.key
        for body in ({}, {"access": {"access": "private"}})
    ]
    async with (
        place.anonymous() as anonymous,
        place.client(account="a", environment="test") as own,
        place.client(account="a") as namesake,
    ):
        assert (await anonymous.get(f"/media/image/{public}")).status_code == 200
        assert (await own.get(f"/media/image/{private}")).status_code == 200
        for caller in (anonymous, namesake):
            assert legacy_code(await caller.get(f"/media/image/{private}")) == (401, "unauthorized")
        assert code(await namesake.get(f"/images/{public}")) == (404, "not_found")
    assert await place.names(public, "test") == ["original"]


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
            assert legacy_code(await stranger.get(f"/media/image/{key}")) == (400, "forbidden")
        for key in (alone, of_article):
            assert legacy_code(await reader.get(f"/media/image/{key}")) == (400, "forbidden")
        assert (await reader.get("/account")).json()["looks"]["logo_key"] == logo
        assert code(await reader.patch("/account", json={"brand_name": "x"})) == (403, "forbidden")
