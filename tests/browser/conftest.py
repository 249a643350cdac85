"""The whole service with a Valkey of its own, which tests restart, and the system's Chromium."""

import shutil
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    ViewportSize,
    async_playwright,
    expect,
)

from libs.catalogue.api_keys import PERMISSIONS, IssuedKey, issue_key
from libs.local_stack.servers import Servers
from libs.local_stack.settings import StackSettings
from libs.local_stack.supervisor import Supervisor
from services.cli import bootstrap
from tests.support.browser_types import ARGUMENTS, CHROMIUM, LAPTOP, Issue, Visit
from tests.support.catalogue import Catalogue, open_catalogue
from tests.support.deployments import FEW_PARTITIONS
from tests.support.http_clients import http_client
from tests.support.voting import Api

expect.set_options(timeout=20_000)
"""A page takes several seconds to load while other tests use all processors."""


@pytest.fixture(scope="package")
async def stack(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Supervisor]:
    settings = StackSettings(
        stack="native",
        kafka_bootstrap_servers=servers.addresses.kafka,
        valkey_url=None,
        namespace=f"browser{uuid.uuid4().hex[:8]}",
        partitions=FEW_PARTITIONS,
        data_dir=Path(tmp_path_factory.mktemp("browser")),
    )
    async with Supervisor(settings, bootstrap, port=0, any_port=True) as supervisor:
        yield supervisor


@pytest.fixture
async def api(stack: Supervisor) -> AsyncIterator[Api]:
    """The API with the development key, which has every permission."""
    described = stack.stack
    headers = {"Authorization": f"Bearer {described['api_key']}"}
    async with http_client(base_url=described["base_url"], headers=headers, timeout=30) as client:
        yield Api(client)


@pytest.fixture
async def catalogue(stack: Supervisor) -> AsyncIterator[Catalogue]:
    described = stack.stack
    async with open_catalogue(described["kafka"], described["valkey"], described["namespace"]) as catalogue:
        yield catalogue


@pytest.fixture
def issue(stack: Supervisor, catalogue: Catalogue) -> Issue:
    """A key of the development account, with all permissions where none are named."""

    async def issue(*permissions: str) -> IssuedKey:
        return await issue_key(catalogue.writer, stack.stack["account"], permissions or PERMISSIONS)

    return issue


@pytest.fixture(scope="package")
async def chromium() -> AsyncIterator[Browser]:
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        pytest.fail(f"No Chromium is on the PATH ({', '.join(CHROMIUM)}). `apt-get install chromium` brings one.")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        await browser.close()


@pytest.fixture
async def visit(stack: Supervisor, chromium: Browser) -> AsyncIterator[Visit]:
    """Opens a path in a browser of its own, logged in with a key; `key=""` for nobody.

    Motion is reduced unless a test wants it: an animation that never ends takes a tenth of a processor.
    At the end no page has run into its own security policy, thrown an error, or asked another origin for anything.
    """
    base = stack.stack["base_url"]
    wrong: list[str] = []

    def hear(said: ConsoleMessage) -> None:
        if "Content Security Policy" in said.text:
            wrong.append(said.text)

    def see(asked: Request) -> None:
        if not asked.url.startswith((base, "data:")):
            wrong.append(asked.url)

    def listen(page: Page) -> None:
        page.on("pageerror", lambda error: wrong.append(f"{page.url}: {error}"))
        page.on("console", hear)
        page.on("request", see)

    async with AsyncExitStack() as opened:

        async def visit(path: str, key: str | None = None, size: tuple[int, int] = LAPTOP, **options: Any) -> Page:
            viewport = ViewportSize(width=size[0], height=size[1])
            options = {"reduced_motion": "reduce"} | options
            context: BrowserContext = await chromium.new_context(base_url=base, viewport=viewport, **options)
            opened.push_async_callback(context.close)
            key = stack.stack["api_key"] if key is None else key
            if key:
                answer = await context.request.post(
                    "/dashboard/session", data={"api_key": key}, headers={"Origin": base}
                )
                assert answer.ok, await answer.text()
            page = await context.new_page()
            listen(page)
            await page.goto(path)
            return page

        yield visit
    assert not wrong
