"""Serves the voting page beside a local stack, in the process of `tally up` or `tally demo`."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from libs.client import AsyncClient
from libs.concurrency.tasks import retried
from libs.local_stack import ports
from libs.local_stack.stack_json import base_url as base_url_of
from libs.web.server.background_server import listen, serve_listening
from libs.web.settings import HostSettings
from services.cli.commands.demo.sample_contest import DemoFailed, create_sample
from services.cli.voting_page.backend import CreateSample, voter_secret_from, voting_app

ALL: Final = "0.0.0.0"  # noqa: S104
STOP_S: Final = 1
PATIENCE_S: Final = 5.0
ATTEMPTS: Final = 5
KEY_NAME: Final = "Voting page of this machine"
PERMISSIONS: Final = ["content:read", "votes:write"]
RENEWAL_S: Final = 60
"""Seconds between renewals in the sample contest, short enough to watch one."""


@asynccontextmanager
async def serve_voting_page(stack: Mapping[str, Any]) -> AsyncIterator[str]:
    """Serve the page for a stack, on the port after its own if that is free; yield the address for browsers.

    It listens where the stack does: on loopback, where it can create a sample contest, or for the phones of the
    network, which only vote.
    Raises `DemoFailed` if the service does not answer.
    """
    base_url, public_url, secret = stack["base_url"], stack["public_url"], stack["api_key"]
    is_local = public_url == base_url
    host = ports.LOOPBACK if is_local else ALL
    async with (
        _client(base_url, secret) as owner,
        _page_key(owner) as key,
        page_client(base_url, key) as tally,
    ):
        with listen(host, _port_beside(base_url, host)) as listening:
            origin = base_url_of(urlsplit(public_url).hostname or "", listening.getsockname()[1])
            create_sample = _creator(owner) if is_local else None
            app = voting_app(tally, origin, voter_secret_from(secret), public_url, create_sample=create_sample)
            async with serve_listening(app, HostSettings(), listening):
                yield origin


def page_client(url: str, key: str) -> AsyncClient:
    """Return the backend's client, which gives up before the page does; no proxy of this machine is asked."""
    return AsyncClient(url, key, patience_s=PATIENCE_S, transport=httpx.AsyncHTTPTransport())


def _client(base_url: str, key: str) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {key}"}
    return httpx.AsyncClient(base_url=base_url, headers=headers, timeout=10, trust_env=False)


@asynccontextmanager
async def _page_key(owner: httpx.AsyncClient) -> AsyncIterator[str]:
    """Yield a key with the page's permissions only, valid while it is served. Raises `DemoFailed`."""
    key = await retried(partial(_made_key, owner), ATTEMPTS)  # a service that has just started may need a moment
    try:
        yield key["api_key"]
    finally:
        with suppress(httpx.HTTPError):
            await owner.delete(f"/keys/{key['key_id']}", timeout=STOP_S)


async def _made_key(owner: httpx.AsyncClient) -> dict[str, Any]:
    """Create the key in place of those of earlier pages. Raises `DemoFailed`."""
    try:
        listed = (await owner.get("/keys", params={"limit": 100})).raise_for_status().json()["data"]
        for left in (each for each in listed if each["name"] == KEY_NAME):
            await owner.delete(f"/keys/{left['key_id']}")
        made = await owner.post("/keys", json={"name": KEY_NAME, "permissions": PERMISSIONS})
        key: dict[str, Any] = made.raise_for_status().json()
    except httpx.HTTPError as error:
        raise DemoFailed(f"The voting page got no API key: {error}", retry_after_s=1) from error
    return key


def _creator(api: httpx.AsyncClient) -> CreateSample:
    """Return the handler, whose key may create contests; it is no part of the backend to copy."""

    async def create(_: Request) -> Response:
        try:
            sample = await create_sample(api, renewal={"cooldown": RENEWAL_S})
        except DemoFailed as error:
            return JSONResponse({"detail": error.message}, 502)
        return JSONResponse({"key": sample.key}, 201)

    return create


def _port_beside(base_url: str, host: str) -> int:
    wanted = (urlsplit(base_url).port or 0) + 1
    return wanted if ports.is_free(wanted, host) else 0
