"""The whole service, as `tally up` runs it, once for a worker's tests; each makes contests of its own."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from libs.local_stack.servers import Servers
from libs.local_stack.supervisor import Supervisor
from tests.support.clients.http_clients import http_client
from tests.support.clients.stack_keys import development_client
from tests.support.clients.voting import Api
from tests.support.servers.deployments import FEW_PARTITIONS
from tests.support.servers.own_stack import open_own_stack

if TYPE_CHECKING:
    from tests.support.servers.secured import Secured


@pytest.fixture(scope="package")
async def stack(
    servers: Servers, secured: Secured | None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Supervisor]:
    """Gateway and projector over the session's Kafka and Valkey, in a namespace of their own."""
    async with stack_of_the_run(servers, secured, tmp_path_factory.mktemp("stack")) as supervisor:
        yield supervisor


@asynccontextmanager
async def stack_of_the_run(
    servers: Servers, secured: Secured | None, directory: Path
) -> AsyncIterator[Supervisor]:
    """Run the services as the run's variables say: on secured servers, or several of each."""
    clustered = bool(os.environ.get("TALLY_TESTS_CLUSTERED"))
    partitions, copies = (16, 2) if clustered else (FEW_PARTITIONS, 1)
    async with open_own_stack(
        servers, directory, partitions, secured=secured, gateways=copies, projectors=copies
    ) as supervisor:
        yield supervisor


@pytest.fixture
async def api(stack: Supervisor) -> AsyncIterator[Api]:
    """The API with the development key, which has every permission."""
    async with development_client(stack.stack) as client:
        yield Api(client)


@pytest.fixture
async def anonymous(stack: Supervisor) -> AsyncIterator[httpx.AsyncClient]:
    """A client without a key."""
    async with http_client(base_url=stack.stack["base_url"], timeout=30) as client:
        yield client


def legacy_client(description: dict[str, str], environment: str) -> httpx.AsyncClient:
    """Return a client of the legacy API with the development brand; `environment` is "" or "test_"."""
    names = ("service_brand", "service_key")
    headers = {name.replace("_", "-"): description[environment + name] for name in names}
    address = description["legacy_test_base_url" if environment else "legacy_base_url"]
    return http_client(base_url=address, headers=headers, timeout=30)


@pytest.fixture
async def legacy(stack: Supervisor) -> AsyncIterator[httpx.AsyncClient]:
    """The legacy API's production environment, whose records the current API's development key sees, too."""
    async with legacy_client(stack.stack, "") as client:
        yield client


@pytest.fixture
async def legacy_test(stack: Supervisor) -> AsyncIterator[httpx.AsyncClient]:
    """The legacy API's test environment."""
    async with legacy_client(stack.stack, "test_") as client:
        yield client
