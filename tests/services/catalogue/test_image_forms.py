"""Forms that upload an image: texts, faults, limits, and pictures fetched from a URL."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.services.catalogue.conftest import MAX_BYTES, Place
from tests.services.catalogue.image_uploads import pointers, upload, uploaded
from tests.support.pictures import bomb, picture
from tests.support.voting import code
from tests.support.web_host import WebHost


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
