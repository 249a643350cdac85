"""One more resource takes a schema and a row: routes, documentation, lists and references derive from it."""

import uuid
from collections.abc import AsyncIterator

import httpx
import pytest
from pydantic import Field

from libs.catalogue.api_keys import PERMISSIONS, ApiKeyCache, issue_key
from libs.catalogue.resource_definition import Offer, Reference, Resource, Table
from libs.catalogue.resource_table import RESOURCES
from libs.catalogue.schemas.base import Linked, Picture, Record, Tags, Title
from libs.local_stack.servers import Servers
from libs.web.door.auth import Authenticator
from libs.web.door.client_address import Proxies
from libs.web.server.http_middleware import HttpMiddleware
from libs.web.server.http_service import HttpModule, build_app
from services.catalogue.routes import build_router
from tests.support.builders.catalogue import open_catalogue
from tests.support.clients.voting import code


class Banner(Record):
    """Shown above an app."""

    title: Title = None
    article: str | None = Field(None, description="Key of an article.")
    image: Picture = Field(Linked())
    slots: list[str] = Field([], description="Places in it.")
    tags: Tags = Field([])


BANNERS = Resource(
    name="banners",
    singular="banner",
    schema=Banner,
    example={"title": "Vote now"},
    references=(Reference("/article", "articles"), Reference("/image/key", "images")),
    offers=(Offer("/slots/*", "banners/slots"),),
)


@pytest.fixture(scope="module")
async def client(servers: Servers) -> AsyncIterator[httpx.AsyncClient]:
    """The catalogue with the row added to its table."""
    table = Table(*RESOURCES.values(), BANNERS)
    addresses, namespace = servers.addresses, f"t{uuid.uuid4().hex[:8]}"
    async with (
        open_catalogue(addresses.kafka, addresses.valkey, namespace, table) as catalogue,
        catalogue.folding(),
    ):
        auth = Authenticator(ApiKeyCache(catalogue.views), Proxies())
        app = build_app("Catalogue", [HttpModule(routers=[build_router(catalogue.record_service, auth, {})])])
        issued = await issue_key(catalogue.writer, "account", PERMISSIONS)
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(HttpMiddleware(app)),
            base_url="http://catalogue",
            headers={"Authorization": f"Bearer {issued.api_key}"},
        ) as client:
            yield client


async def test_it_is_made_read_changed_listed_and_deleted(
    client: httpx.AsyncClient,
) -> None:
    made = await client.post("/banners", json={"title": "Vote now", "tags": ["a"]})
    where = made.headers["location"]
    assert (made.status_code, where) == (201, f"/banners/{made.json()['key']}")
    assert set(made.json()) == {"key", "title", "article", "image", "slots", "tags", "created", "updated"}
    changed = await client.patch(where, json={"title": None}, headers={"If-Match": made.headers["etag"]})
    assert (changed.status_code, changed.json()["title"]) == (200, None)
    assert (await client.get("/banners", params={"tags": "a"})).json()["data"] == [changed.json()]
    assert (await client.get(where)).json() == changed.json()
    assert code(await client.post("/banners", json={"stray": 1})) == (422, "validation_failed")
    article = (await client.post("/articles", json={})).json()["key"]
    for key, status in ((article, 200), ("nothing", 422)):
        assert (await client.patch(where, json={"article": key})).status_code == status
    assert code(await client.delete(f"/articles/{article}")) == (409, "in_use")
    assert (await client.delete(where)).status_code == 204
    assert (await client.get(where)).status_code == 404
    assert (await client.delete(f"/articles/{article}")).status_code == 204
