"""Types and Chromium's options for tests in a browser."""

from collections.abc import Awaitable, Callable
from typing import Final

from playwright.async_api import Page

from libs.catalogue.api_keys import IssuedKey

NO_LOOPBACK: Final = "hall.example"
"""A name of this machine under which a page is no secure context, as on a LAN."""
ARGUMENTS: Final = (
    f"--host-resolver-rules=MAP {NO_LOOPBACK} 127.0.0.1",
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
LAPTOP: Final = (1366, 768)
Issue = Callable[..., Awaitable[IssuedKey]]
Visit = Callable[..., Awaitable[Page]]
