"""Images over HTTP: uploaded, fetched, shown at the media host, deleted."""

import asyncio
import io
from collections.abc import AsyncIterator
from typing import Any

import httpx
import orjson
import pytest

from libs.catalogue.command_writer import CommandWriter, WriteRequest
from libs.catalogue.record_service import RecordService
from libs.catalogue.resource_table import IMAGES, RESOURCES
from libs.local_stack.servers import Servers
from libs.media.decoder_pool import Decoders
from libs.media.fetcher import Fetcher
from libs.media.image_store import Kept
from libs.storage.store import environment_files
from libs.tally.errors import AppendUnknown, ViewsUnavailable
from services.catalogue.images import Images
from tests.services.catalogue.conftest import MAX_BYTES, Place
from tests.support.catalogue import open_catalogue
from tests.support.eventually import eventually
from tests.support.http_clients import http_client
from tests.support.pictures import bomb, encoded, halves, is_red, opened, picture
from tests.support.voting import code
from tests.support.web_host import WebHost

NO_FETCHER = Fetcher(http_client(), 0, 0)


@pytest.fixture
async def client(place: Place) -> AsyncIterator[httpx.AsyncClient]:
    async with place.client() as client:
        yield client


async def upload(
    client: httpx.AsyncClient,
    data: bytes,
    name: str = "photo.png",
    headers: dict[str, str] | None = None,
    **parts: Any,
) -> httpx.Response:
    """`parts` that are no texts go as JSON text."""
    form = {key: value if isinstance(value, str) else orjson.dumps(value) for key, value in parts.items()}
    return await client.post("/images", files={"file": (name, data)}, data=form, headers=headers)


async def uploaded(client: httpx.AsyncClient, data: bytes | None = None, **parts: Any) -> dict[str, Any]:
    answer = await upload(client, picture() if data is None else data, **parts)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def media_code(answer: httpx.Response) -> tuple[int, str]:
    """Return status and code of an error in the legacy API's form."""
    return answer.status_code, answer.json()["error"]["code"]


def pointers(answer: httpx.Response) -> tuple[int, list[str]]:
    return answer.status_code, [error["pointer"] for error in answer.json().get("errors", ())]


@pytest.mark.parametrize(
    ("name", "media_type"),
    [("jpg", "image/jpeg"), ("png", "image/png"), ("webp", "image/webp"), ("gif", "image/gif")],
)
async def test_an_image_from_its_upload_to_its_end(
    place: Place, client: httpx.AsyncClient, name: str, media_type: str
) -> None:
    made = await upload(client, picture(name, 300, 200), f"summer.{name}")
    assert made.status_code == 201
    image = made.json()
    assert image == image | {"title": "summer", "format": name, "ratio": 1.5, "custom_data": {}}
    assert image["access"] == {"access": "public", "updated": image["created"]}
    members = {"key", "title", "format", "ratio", "created", "updated", "access", "custom_data"}
    assert set(image) == members | {"image_text", "public_use", "is_icon", "tags", "url", "sizes"}
    where = made.headers["location"]
    assert where == f"/images/{image['key']}"
    read = await client.get(where)
    assert (read.status_code, read.json(), read.headers["etag"]) == (200, image, made.headers["etag"])
    async with place.anybody() as anybody:
        shown = await anybody.get(f"/media/image/{image['key']}")
        assert (shown.status_code, shown.headers["content-type"]) == (200, media_type)
        assert shown.headers["x-content-type-options"] == "nosniff"
        assert opened(shown.content).size == (300, 200)
        assert (await client.delete(where)).status_code == 204
        assert code(await client.get(where)) == (404, "not_found")
        assert code(await client.delete(where)) == (404, "not_found")
        assert media_code(await anybody.get(f"/media/image/{image['key']}")) == (400, "not_found")
    assert await place.names(image["key"]) == []


async def test_there_is_no_list(client: httpx.AsyncClient) -> None:
    listed = await client.get("/images")
    assert (code(listed), listed.headers["allow"]) == ((405, "method_not_allowed"), "POST")


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
    assert pointers(await client.patch(where, json={"is_icon": True})) == (422, ["/is_icon"])
    assert pointers(await client.patch(where, json={"picture": {}})) == (422, ["/picture"])


async def test_the_addresses_in_the_record_serve_the_picture_in_every_size(
    place: Place, client: httpx.AsyncClient
) -> None:
    image = await uploaded(client, picture("png", 1800, 900))
    assert set(image["sizes"]) == {"thumb", "default", "large"}
    async with place.anybody() as anybody:
        shown = {size: await anybody.get(url) for size, url in image["sizes"].items()}
        sizes = {size: opened(answer.content).size for size, answer in shown.items()}
        assert sizes == {"thumb": (150, 75), "default": (800, 400), "large": (1600, 800)}
        assert (await anybody.get(image["url"])).content == shown["default"].content
        assert image["url"].startswith("http://catalogue/media/image/")


async def test_the_address_changes_with_the_picture_and_only_the_current_one_may_be_cached(
    place: Place, host: WebHost
) -> None:
    async with place.legacy() as client:
        image = await uploaded(client, picture("png", 30, 20))
        before = (await client.get(f"/images/{image['key']}")).json()["url"]
        replaced = await client.post(
            f"/legacy/images/{image['key']}", data={"url": host.respond("/b.jpg", picture("jpg", 20, 30))}
        )
        assert replaced.status_code == 200, replaced.text
        after = (await client.get(f"/images/{image['key']}")).json()["url"]
        assert before != after
        old, new, bare = [await client.get(url) for url in (before, after, f"/media/image/{image['key']}")]
        assert old.content == new.content == bare.content
        assert new.headers["cache-control"] == "public, max-age=86400"
        assert old.headers["cache-control"] == bare.headers["cache-control"] == "public, max-age=300"
        assert old.headers["etag"] == new.headers["etag"]


async def test_what_is_said_of_an_image_comes_with_its_upload(client: httpx.AsyncClient) -> None:
    image = await uploaded(client, title="Stage", access={"access": "private"}, custom_data={"a": [1]})
    assert (image["title"], image["access"]["access"], image["custom_data"]) == ("Stage", "private", {"a": [1]})


async def test_what_was_read_of_an_image_can_be_sent_with_another(
    client: httpx.AsyncClient, host: WebHost
) -> None:
    read = await uploaded(client, title="Stage", custom_data={"a": [1]}, tags=["x"])
    own = {name: read[name] for name in ("title", "access", "custom_data", "tags")} | {"access": {}}
    fetched = await client.post(
        "/images/upload_from_url", json=read | {"url": host.respond("/a.gif", picture("gif")), "format": "jpg"}
    )
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


async def test_the_integers_of_a_form_are_kept_exactly(client: httpx.AsyncClient) -> None:
    largest = {"most": 2**64 - 1, "least": -(2**63)}
    assert (await uploaded(client, custom_data=largest))["custom_data"] == largest


async def test_the_name_of_a_file_is_its_title_and_nothing_more(client: httpx.AsyncClient) -> None:
    for name, title in [
        ("a/b\\../x.tar.png", "x.tar"),
        ("Grüße.gif", "Grüße"),
        (".png", ".png"),
        ("x" * 300, "x" * 255),
    ]:
        image = (await upload(client, picture("jpg"), name)).json()
        assert (image["title"], image["format"]) == (title, "jpg")


async def test_all_faults_beside_a_picture_are_named_at_once(client: httpx.AsyncClient) -> None:
    form = {"tags": "[", "custom_data": "7", "is_icon": '"x"', "stray": "1"}
    faults = ["/file", "/tags", "/stray", "/custom_data", "/is_icon"]
    assert pointers(await client.post("/images", data=form, files={"photo": ("a", b"")})) == (
        422,
        ["/file", "/tags", "/photo", *faults[2:]],
    )
    body = {"title": 7, "stray": 1, "custom_data": {"n": 2**70}}
    answer = await client.post("/images/upload_from_url", json=body)
    assert pointers(answer) == (422, ["/url", "/stray", "/custom_data/n", "/title"])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"%PDF-1.7",
        picture("jpg", 400, 300)[:-900],
        bomb(3_000, 3_000),
    ],
)
async def test_what_is_no_picture_is_refused_and_not_kept(
    place: Place, client: httpx.AsyncClient, data: bytes
) -> None:
    before = await place.store.names("worlds")
    assert pointers(await upload(client, data)) == (422, ["/file"])
    assert await place.store.names("worlds") == before


async def test_a_form_without_a_file_is_refused(client: httpx.AsyncClient) -> None:
    assert pointers(await client.post("/images", files={"photo": ("a.png", picture())})) == (
        422,
        ["/file", "/photo"],
    )
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
    assert code(await upload(client, b"x" * (MAX_BYTES + 1))) == (413, "payload_too_large")
    assert code(await upload(client, b"x" * 3_000_000)) == (413, "payload_too_large")
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
    kept = [name for name in await place.store.names("worlds") if f"/{account}/" in name]
    assert len(kept) == 1
    assert first.json()["key"] in kept[0]


async def test_a_picture_is_fetched(client: httpx.AsyncClient, host: WebHost) -> None:
    host.respond("/a/Main%20stage.png", picture("jpg", 60, 20))
    url = host.respond("/moved", status="302 Found", Location="/a/Main%20stage.png")
    made = await client.post("/images/upload_from_url", json={"url": host.url("/a/Main%20stage.png")})
    image = made.json()
    assert (made.status_code, image["title"], image["format"], image["ratio"]) == (201, "Main stage", "jpg", 3.0)
    assert made.headers["location"] == f"/images/{image['key']}"
    private = {"url": url, "title": "Other", "access": {"access": "private"}}
    other = (await client.post("/images/upload_from_url", json=private)).json()
    assert (other["title"], other["access"]["access"]) == ("Other", "private")


async def test_a_fetch_that_is_sent_again_is_not_made_again(client: httpx.AsyncClient, host: WebHost) -> None:
    body, key = {"url": host.respond("/a.png", picture())}, {"Idempotency-Key": "one"}
    first = await client.post("/images/upload_from_url", json=body, headers=key)
    host.respond("/a.png", b"gone", "410 Gone")
    again = await client.post("/images/upload_from_url", json=body, headers=key)
    assert (again.status_code, again.json()) == (201, first.json())
    assert again.headers["idempotent-replayed"] == "true"
    assert len(host.heads) == 1


async def test_what_cannot_be_fetched_is_refused(client: httpx.AsyncClient, host: WebHost) -> None:
    metadata = host.respond("/metadata", status="302 Found", Location="http://169.254.169.254/latest")
    large = host.respond("/large", b"x" * (MAX_BYTES + 1))
    page = host.respond("/page", b"<html>")
    for url in (
        None,
        1,
        "",
        "ftp://127.0.0.1/",
        "http://u:p@127.0.0.1/",
        "http://10.0.0.1/",
        metadata,
        large,
        page,
    ):
        refused = await client.post("/images/upload_from_url", json={"url": url})
        assert pointers(refused) == (422, ["/url"]), url
    fine = host.respond("/a.png", picture())
    unknown = await client.post("/images/upload_from_url", json={"url": fine, "src": "x"})
    assert pointers(unknown) == (422, ["/src"])
    assert len([head for head in host.heads if "/a.png" in head]) == 0


async def test_keys_without_the_permission_and_other_accounts_do_not_come_in(
    place: Place, client: httpx.AsyncClient, host: WebHost
) -> None:
    where = f"/images/{(await uploaded(client))['key']}"
    url = {"url": host.respond("/a.png", picture())}
    async with place.client("content:read") as reader, place.client() as stranger, place.anybody() as anybody:
        for caller, expected in ((reader, (403, "forbidden")), (anybody, (401, "unauthorized"))):
            assert code(await upload(caller, picture())) == expected
            assert code(await caller.post("/images/upload_from_url", json=url)) == expected
            assert code(await caller.delete(where)) == expected
        assert code(await stranger.get(where)) == (404, "not_found")
        assert code(await stranger.delete(where)) == (404, "not_found")
    assert host.heads == []


async def test_an_image_that_is_referred_to_stays(place: Place, client: httpx.AsyncClient) -> None:
    image = await uploaded(client)
    contest = (await client.post("/contests", json={"image": {"key": image["key"]}})).headers["location"]
    refused = await client.delete(f"/images/{image['key']}")
    assert code(refused) == (409, "in_use")
    assert await place.names(image["key"]) == ["original"]
    await client.delete(contest)
    stale = await client.delete(f"/images/{image['key']}", headers={"If-Match": '"other"'})
    assert code(stale) == (412, "version_conflict")
    assert (await client.delete(f"/images/{image['key']}")).status_code == 204
    assert code(await client.post("/contests", json={"image": {"key": image["key"]}})) == (
        422,
        "validation_failed",
    )


@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        ((2000, 1000), {"thumb": (150, 75), "default": (800, 400), "large": (1600, 800)}),
        ((400, 1000), {"thumb": (60, 150), "default": (320, 800), "large": (400, 1000)}),
        ((100, 100), {"thumb": (100, 100), "default": (100, 100), "large": (100, 100)}),
    ],
)
async def test_renditions_never_enlarge_and_are_kept_once_made(
    place: Place, client: httpx.AsyncClient, given: tuple[int, int], sizes: dict[str, tuple[int, int]]
) -> None:
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


async def test_a_picture_that_was_read_need_not_be_read_again(place: Place, client: httpx.AsyncClient) -> None:
    path = (await uploaded(client, picture("jpg", 900, 900)))["url"]
    async with place.anybody() as anybody:
        first = await anybody.get(path)
        assert first.headers["cache-control"] == "public, max-age=86400"
        tag = first.headers["etag"]
        again = await anybody.get(path, headers={"If-None-Match": f'"x", {tag}'})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert again.headers["cache-control"] == first.headers["cache-control"]
        assert (await anybody.get(path, headers={"If-None-Match": '"x"'})).status_code == 200


async def test_an_unknown_size_is_refused(client: httpx.AsyncClient) -> None:
    path = f"/media/image/{(await uploaded(client))['key']}"
    for size in ("", "huge", "original", "../thumb"):
        assert media_code(await client.get(path, params={"size": size})) == (400, "validation_failed")
    assert media_code(await client.get("/media/image/nothing?size=thumb")) == (400, "not_found")


async def test_a_private_picture_is_for_keys_of_its_account(place: Place, client: httpx.AsyncClient) -> None:
    account = client.headers["x-account"]
    path = f"/media/image/{(await uploaded(client, access={'access': 'private'}))['key']}"
    own = await client.get(path)
    assert (own.status_code, own.headers["cache-control"]) == (200, "private, no-cache")
    async with (
        place.anybody() as anybody,
        place.client() as stranger,
        place.client("content:write", account=account) as writer,
        place.client("content:read", account=account) as reader,
    ):
        assert media_code(await anybody.get(path)) == (401, "unauthorized")
        assert media_code(await anybody.get(path, headers={"If-None-Match": own.headers["etag"]})) == (
            401,
            "unauthorized",
        )
        assert media_code(await stranger.get(path)) == (400, "not_found")
        assert media_code(await writer.get(path)) == (400, "forbidden")
        assert (await reader.get(path)).content == own.content
        token = reader.headers["authorization"].removeprefix("Bearer ")
        pair = {"service-brand": account, "service-key": token}
        assert (await anybody.get(path, headers=pair)).status_code == 200
        assert media_code(await anybody.get(path, headers=pair | {"service-brand": "other"})) == (
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
        place.anybody() as anybody,
        place.client(account="a", environment="test") as own,
        place.client(account="a") as namesake,
    ):
        assert (await anybody.get(f"/media/image/{keys[0]}")).status_code == 200
        assert (await own.get(f"/media/image/{keys[1]}")).status_code == 200
        for caller in (anybody, namesake):
            assert media_code(await caller.get(f"/media/image/{keys[1]}")) == (401, "unauthorized")
        assert code(await namesake.get(f"/images/{keys[0]}")) == (404, "not_found")
    assert await place.names(keys[0], "test") == ["original"]


async def test_a_picture_stays_where_its_record_may_yet_come(
    place: Place, servers: Servers, namespace: str
) -> None:
    addresses = servers.addresses
    async with open_catalogue(addresses.kafka, addresses.valkey, namespace) as unfolded:
        place.environments["unfolded"] = unfolded
        writer = CommandWriter(unfolded.topic, unfolded.log, unfolded.views, AppendUnknown, deadline_s=0.2)
        images = Images(
            RecordService(RESOURCES, unfolded.views, writer), place.image_store("unfolded"), NO_FETCHER
        )
        with pytest.raises(ViewsUnavailable):
            await images.upload("a", io.BytesIO(picture()), {}, WriteRequest.once())
        [name] = await place.store.names(environment_files(namespace))
        async with unfolded.folding():
            key = name.split("/")[-3]
            assert (await eventually(lambda: unfolded.views.get("a", "images", key))) is not None
            kept = Kept.of((await unfolded.record_service.get(IMAGES, "a", key)).document)
            assert await place.image_store("unfolded").show("a", key, kept, "thumb") is not None


async def test_a_picture_goes_where_its_record_cannot_come(place: Place, client: httpx.AsyncClient) -> None:
    before = await place.store.names("worlds")
    refused = await upload(client, picture(), access={"access": "secret"})
    assert pointers(refused) == (422, ["/access/access"])
    assert await place.store.names("worlds") == before


async def test_a_transparent_corner_is_shown_through(client: httpx.AsyncClient) -> None:
    image = halves(400, 400).convert("RGBA")
    image.putalpha(0)
    key = (await uploaded(client, encoded(image, "webp")))["key"]
    shown = opened((await client.get(f"/media/image/{key}?size=thumb")).content)
    assert shown.getpixel((5, 5))[3] == 0  # type: ignore[index]
