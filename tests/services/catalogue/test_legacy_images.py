"""Legacy images: fetched, replaced, and used by other brands."""

from typing import Any

import httpx
import pytest

from libs.media.image_store import ImageStore, StoredPicture
from tests.services.catalogue.conftest import MAX_BYTES, Place
from tests.services.catalogue.image_uploads import legacy_code
from tests.support.builders.pictures import opened, picture
from tests.support.clients.voting import code
from tests.support.servers.web_host import WebHost


async def made(client: httpx.AsyncClient, base: str = "/legacy", **form: str) -> dict[str, Any]:
    """An image of a picture of its own, unless the form names a `url`."""
    files = None if "url" in form else {"src": ("a.png", picture())}
    answer = await client.post(f"{base}/images", data=form, files=files)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.parametrize(("base", "environment"), [("/legacy", "production"), ("/legacy-test", "test")])
async def test_a_picture_is_fetched_and_replaced_by_its_address(
    place: Place, host: WebHost, base: str, environment: str
) -> None:
    first_url = host.respond("/main%20stage.png", picture("png", 40, 20))
    second_url = host.respond("/second.jpg", picture("jpg", 20, 80))
    async with place.legacy(environment) as client, place.anonymous() as anonymous:
        image = await made(client, base, url=first_url, title="Stage")
        key = image["image_id"]
        assert (image["title"], image["ratio"]) == ("Stage", 2.0)
        first = await anonymous.get(f"/media/image/{key}")
        changed = await client.post(f"{base}/images/{key}", data={"url": second_url})
        assert changed.json() == image | {"ratio": 0.25}
        assert (await client.get(f"{base}/images/{key}")).json() == changed.json()
        second = await anonymous.get(f"/media/image/{key}", headers={"If-None-Match": first.headers["etag"]})
        assert (second.status_code, second.headers["content-type"]) == (200, "image/jpeg")
        assert opened(second.content).size == (20, 80)
        assert await place.names(key, environment) == ["original"]


async def test_a_picture_that_is_refused_replaces_nothing(
    place: Place, client: httpx.AsyncClient, host: WebHost
) -> None:
    icon = await made(client, is_icon="true")
    path = f"/legacy/images/{icon['image_id']}"
    fine = {"url": host.respond("/a.png", picture("png", 90, 30))}
    for form in (
        {"url": host.respond("/a.jpg", picture("jpg"))},
        {"url": host.respond("/a.gif", picture("gif"))},
        {"url": host.url("/nothing")},
        {"url": host.respond("/large.png", b"x" * (MAX_BYTES + 1))},
        fine | {"public_use": "perhaps"},
    ):
        assert legacy_code(await client.post(path, data=form)) == (400, "validation_failed"), form
    assert (await client.get(path)).json() == icon
    assert len(await place.names(icon["image_id"])) == 1
    assert (await client.post(path, data=fine)).json() == icon | {"ratio": 3.0}


async def test_who_reads_a_picture_while_it_is_replaced_gets_the_new_one(
    client: httpx.AsyncClient, host: WebHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = (await made(client))["image_id"]
    url = host.respond("/new.png", picture("png", 30, 10))
    show = ImageStore.show

    async def after_an_update(
        image_store: ImageStore, account: str, image: str, kept: StoredPicture, size: str
    ) -> bytes | None:
        monkeypatch.setattr(ImageStore, "show", show)
        assert (await client.post(f"/legacy/images/{key}", data={"url": url})).status_code == 200
        return await show(image_store, account, image, kept, size)

    monkeypatch.setattr(ImageStore, "show", after_an_update)
    read = await client.get(f"/media/image/{key}")
    assert (read.status_code, opened(read.content).size) == (200, (30, 10))


async def test_what_only_legacy_names_is_kept_by_an_upload_of_the_current_api(client: httpx.AsyncClient) -> None:
    said = {"image_text": "At night", "public_use": "true", "is_icon": "true", "tags": '["a", "b"]'}
    answer = await client.post("/images", files={"file": ("a.png", picture())}, data=said)
    assert answer.status_code == 201, answer.text
    image = (await client.get(f"/legacy/images/{answer.json()['key']}")).json()
    assert (image["image_text"], image["public_use"], image["is_icon"]) == ("At night", True, True)
    assert (image["title"], image["tags"]) == ("a", ["a", "b"])
    no_icon = await client.post("/images", files={"file": ("a.jpg", picture("jpg"))}, data={"is_icon": "true"})
    assert code(no_icon) == (422, "validation_failed")


async def test_the_other_world_s_images_are_not_there(place: Place, client: httpx.AsyncClient) -> None:
    key = (await made(client, public_use="true"))["image_id"]
    async with place.legacy("test") as tester:
        read = await tester.get(f"/legacy-test/images/{key}")
        contest = await tester.post("/legacy-test/contests", json={"image_id": key})
        assert legacy_code(read) == legacy_code(contest) == (400, "not_found")
