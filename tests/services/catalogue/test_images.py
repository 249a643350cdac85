"""Images over HTTP: uploaded, fetched, shown at the media host, deleted."""

import io

import httpx
import pytest

from libs.catalogue.commands import CommandWriter, WriteRequest
from libs.catalogue.records import RecordService
from libs.catalogue.resource_table import IMAGES, RESOURCES
from libs.local_stack.servers import Servers
from libs.media.image_store import StoredPicture
from libs.media.images import Images
from libs.storage.object_store import environment_files
from libs.tally.errors import ViewsUnavailable
from tests.services.catalogue.conftest import Place
from tests.services.catalogue.image_uploads import NO_FETCHER, media_code, pointers, upload, uploaded
from tests.support.catalogue import open_catalogue
from tests.support.eventually import eventually
from tests.support.pictures import opened, picture
from tests.support.voting import code
from tests.support.web_host import WebHost


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
    async with place.anonymous() as anonymous:
        shown = await anonymous.get(f"/media/image/{image['key']}")
        assert (shown.status_code, shown.headers["content-type"]) == (200, media_type)
        assert shown.headers["x-content-type-options"] == "nosniff"
        assert opened(shown.content).size == (300, 200)
        assert (await client.delete(where)).status_code == 204
        assert code(await client.get(where)) == (404, "not_found")
        assert code(await client.delete(where)) == (404, "not_found")
        assert media_code(await anonymous.get(f"/media/image/{image['key']}")) == (400, "not_found")
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
    assert pointers(await client.patch(where, json={"is_icon": True})) == (422, ["/is_icon"])
    assert pointers(await client.patch(where, json={"picture": {}})) == (422, ["/picture"])


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
