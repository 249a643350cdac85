"""`tally dashboard`: opens the dashboard in a browser, logged in by a ticket instead of the API key."""

import asyncio
import os
import sys
import webbrowser
from collections.abc import AsyncGenerator
from contextlib import suppress
from http import HTTPStatus
from threading import Thread
from typing import Annotated, Any
from urllib.parse import quote

import httpx
from typer import Option

from libs.deployment.deployment import Deployment
from libs.tally.errors import TallyError
from services.cli.command_decorator import OneContest, command
from services.cli.deployment_discovery import NoDeployment
from services.cli.output import Result


class NotLoggedIn(TallyError):
    """The service issued no ticket."""

    code = "not_logged_in"


@command()
async def dashboard(
    deployment: Deployment,
    contest: OneContest = None,
    no_browser: Annotated[bool, Option("--no-browser", help="Only print the address.")] = False,
) -> AsyncGenerator[Result, None]:
    """Open the local stack's dashboard, logged in, and print the URL, which is valid once, for 60 s."""
    if not deployment.description:
        raise NoDeployment(
            "This works only for a stack of `tally up`. Otherwise log in at /dashboard with an API key."
        )
    address = await ticketed(deployment.description, contest or "")
    yield Result({"dashboard_url": address}, [address])
    if not no_browser and has_display():
        await asyncio.to_thread(webbrowser.open, address)


async def open_dashboard(stack: dict[str, Any], contest: str = "") -> None:
    """Open a browser if this machine has a display. Raises nothing, and does not wait for the browser to exit."""
    if has_display():
        with suppress(TallyError):
            address = await ticketed(stack, contest)
            Thread(target=webbrowser.open, args=(address,), daemon=True).start()


async def ticketed(stack: dict[str, Any], contest: str = "") -> str:
    """Return the URL of a contest's page or the dashboard, valid for one login. Raises `NotLoggedIn`."""
    headers = {"authorization": f"Bearer {stack['api_key']}"}
    try:
        async with httpx.AsyncClient(base_url=stack["base_url"], headers=headers, trust_env=False) as client:
            answer = await client.post("/dashboard/tickets")
    except httpx.HTTPError as error:
        raise NotLoggedIn(f"The service at {stack['base_url']} does not answer", retry_after_s=1) from error
    if answer.status_code != HTTPStatus.CREATED:
        raise NotLoggedIn(f"The service issued no ticket: {answer.text[:300]}")
    page = f"/contests/{quote(contest, safe='')}" if contest else ""
    return f"{stack['dashboard_url']}{page}#ticket={answer.json()['ticket']}"


def has_display() -> bool:
    """Return whether this machine has a display for a browser."""
    return sys.platform in ("darwin", "win32") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
