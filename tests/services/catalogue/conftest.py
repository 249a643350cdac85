"""The catalogue's service over both environments and an object store, once for a module's tests."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from libs.catalogue.api_keys import PERMISSIONS, issue_key
from libs.contracts.topics import legacy_test_namespace
from libs.deployment.deployment import open_deployment
from libs.local_stack.servers import Addresses, Servers
from libs.media.decoder_pool import Decoders
from libs.media.image_store import ImageStore
from libs.storage.object_store import Store, environment_files, open_store
from libs.web.server.http_middleware import HttpMiddleware
from libs.web.server.http_service import build_app
from services.catalogue.app import open_module
from services.catalogue.settings import Settings
from tests.support.builders.catalogue import Catalogue, open_catalogue
from tests.support.servers.permissive_guard import Unguarded
from tests.support.servers.web_host import WebHost, open_host

MAX_BYTES = 100_000


@dataclass
class Place:
    """The catalogue's service over both environments and an object store."""

    front: HttpMiddleware
    environments: dict[str, Catalogue]
    store: Store
    decoders: Decoders

    async def names(self, key: str, environment: str = "production", of: str = "images") -> list[str]:
        """Return the names of an image's or file's objects in the store, without their common prefix."""
        prefix = f"{environment_files(self.environments[environment].namespace)}{of}"
        return [name.rsplit("/", 1)[1] for name in await self.store.names(prefix) if f"/{key}/" in name]

    @asynccontextmanager
    async def client(
        self, *permissions: str, account: str = "", environment: str = "production"
    ) -> AsyncIterator[httpx.AsyncClient]:
        account = account or f"account-{uuid.uuid4().hex[:8]}"
        issued = await issue_key(self.environments[environment].writer, account, permissions or PERMISSIONS)
        async with self.anonymous() as client:
            client.headers["authorization"] = f"Bearer {issued.api_key}"
            client.headers["x-account"] = account
            yield client

    @asynccontextmanager
    async def legacy(self, environment: str = "production", *permissions: str) -> AsyncIterator[httpx.AsyncClient]:
        """Speaks to both generations, as one account."""
        async with self.client(*permissions, environment=environment) as client:
            client.headers["service-brand"] = client.headers["x-account"]
            client.headers["service-key"] = client.headers["authorization"].removeprefix("Bearer ")
            yield client

    def image_store(self, environment: str) -> ImageStore:
        return ImageStore(self.store, self.environments[environment].namespace, self.decoders)

    def anonymous(self) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(self.front, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://catalogue", timeout=30)


@asynccontextmanager
async def open_place(addresses: Addresses, objects: Path, **given: Any) -> AsyncIterator[Place]:
    """In a namespace of its own; `given` are settings."""
    namespace, decoders = f"t{uuid.uuid4().hex[:8]}", Decoders(1_000_000, 10)
    settings = Settings(
        kafka_bootstrap_servers=addresses.kafka,
        valkey_url=addresses.valkey,
        namespace=namespace,
        storage_url=str(objects),
        image_max_bytes=MAX_BYTES,
        image_max_pixels=5_000_000,
        fetch_allow="127.0.0.1",
        **given,
    )
    async with (
        open_catalogue(addresses.kafka, addresses.valkey, namespace) as production,
        open_catalogue(addresses.kafka, addresses.valkey, legacy_test_namespace(namespace)) as test,
        production.folding(),
        test.folding(),
        open_deployment(settings, guard=Unguarded) as servers,
        open_module(settings, servers) as http_module,
    ):
        front = HttpMiddleware(build_app("Tallykeeper: catalogue", [http_module]))
        try:
            yield Place(front, {"production": production, "test": test}, open_store(str(objects)), decoders)
        finally:
            await decoders.close()


@pytest.fixture(scope="module")
async def place(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    async with open_place(servers.addresses, tmp_path_factory.mktemp("objects")) as place:
        yield place


@pytest.fixture
async def host() -> AsyncIterator[WebHost]:
    async with open_host() as host:
        yield host


@pytest.fixture
async def client(place: Place) -> AsyncIterator[httpx.AsyncClient]:
    """Of an account of its own, with all permissions, in production."""
    async with place.legacy() as client:
        yield client


@pytest.fixture
async def anonymous(place: Place) -> AsyncIterator[httpx.AsyncClient]:
    async with place.anonymous() as client:
        yield client
