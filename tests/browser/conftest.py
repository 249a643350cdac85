"""The whole service with a Valkey of its own, which tests restart, and the system's Chromium."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, Request, async_playwright, expect

from libs.local_stack.servers import Servers
from libs.local_stack.supervisor import Supervisor
from tests.browser.staged_walls import Stage
from tests.support.builders.catalogue import Catalogue, open_catalogue
from tests.support.clients.browser_contexts import Contexts
from tests.support.clients.browser_types import ARGUMENTS, LAPTOP, Issue, Visit
from tests.support.clients.stack_keys import development_client, new_key
from tests.support.clients.voting import Api
from tests.support.programs import CHROMIUM, Programs
from tests.support.servers.own_stack import open_own_stack

expect.set_options(timeout=20_000)
"""A page takes several seconds to load while other tests use all processors."""


@pytest.fixture(scope="package")
async def stack(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Supervisor]:
    data_dir = Path(tmp_path_factory.mktemp("browser"))
    async with open_own_stack(servers, data_dir, stack="native", valkey_url=None) as supervisor:
        yield supervisor


@pytest.fixture
async def api(stack: Supervisor) -> AsyncIterator[Api]:
    """The API with the development key, which has every permission."""
    async with development_client(stack.stack) as client:
        yield Api(client)


@pytest.fixture
async def catalogue(stack: Supervisor) -> AsyncIterator[Catalogue]:
    described = stack.stack
    async with open_catalogue(described["kafka"], described["valkey"], described["namespace"]) as catalogue:
        yield catalogue


@pytest.fixture
def issue(stack: Supervisor) -> Issue:
    return partial(new_key, stack)


@pytest.fixture(scope="package")
async def chromium(programs: Programs) -> AsyncIterator[Browser]:
    path = await asyncio.to_thread(programs.path, CHROMIUM)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        await browser.close()


@pytest.fixture
async def stage(chromium: Browser) -> AsyncIterator[Stage]:
    """Walls without a service, which show the scenes that a test makes."""
    async with Stage(chromium) as stage:
        yield stage


@pytest.fixture(scope="package")
def shared_contexts(stack: Supervisor, chromium: Browser) -> Contexts:
    return Contexts(chromium, stack.stack["base_url"])


@pytest.fixture
async def contexts(shared_contexts: Contexts) -> AsyncIterator[Contexts]:
    """At the end no page has broken its own security policy or thrown an error."""
    shared_contexts.wrong.clear()
    try:
        yield shared_contexts
    finally:
        await shared_contexts.take_back()
    assert not shared_contexts.wrong


@pytest.fixture
async def visit(stack: Supervisor, contexts: Contexts) -> AsyncIterator[Visit]:
    """Opens a path in a context of its own, logged in with a key; `key=""` for no key.

    Motion is reduced unless a test wants it: an animation that never ends takes a tenth of a processor.
    At the end no page has requested anything of another origin.
    """
    base = stack.stack["base_url"]
    opened: list[Page] = []

    def see(asked: Request) -> None:
        if not asked.url.startswith((base, "data:", "about:")):
            contexts.wrong.append(asked.url)

    async def visit(path: str, key: str | None = None, size: tuple[int, int] = LAPTOP, **options: Any) -> Page:
        page = await contexts.lend(size, **options)
        opened.append(page)
        page.on("request", see)
        key = stack.stack["api_key"] if key is None else key
        if key:
            answer = await page.context.request.post(
                f"{base}/dashboard/session", data={"api_key": key}, headers={"Origin": base}
            )
            assert answer.ok, await answer.text()
        await page.goto(path)
        return page

    yield visit
    for page in opened:
        page.remove_listener("request", see)
