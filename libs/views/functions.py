"""The Valkey functions, loaded by every process at its start.

Each file in `lua` is a library; so is each folder, its files joined in the order of their names. The files of
`lua/shared` are prepended to every library.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

from libs.telemetry.redaction import SecretUrl
from libs.views.client import Coalescer, Valkey, connect
from libs.views.connection import NotPermitted
from libs.views.settings import ValkeySettings

logger = logging.getLogger(__name__)

SOURCES = Path(__file__).with_name("lua")


def libraries() -> Iterator[tuple[str, str]]:
    """Yield name and source of each library."""
    shared = "\n".join(part.read_text() for part in sorted((SOURCES / "shared").glob("*.lua")))
    for path in sorted(SOURCES.iterdir()):
        if path.name == "shared":
            continue
        parts = sorted(path.glob("*.lua")) if path.is_dir() else [path]
        head, _, body = "\n".join(part.read_text() for part in parts).partition("\n")
        yield head.partition("name=")[2].strip(), f"{head}\n{shared}\n{body}"


async def load_functions(valkey: Valkey) -> None:
    """Load or replace the libraries; repeatable, and safe during concurrent calls.

    Without the permission in Valkey's ACL they stay unchanged: only users with all write permissions load them,
    since a function runs with its caller's permissions (`deploy/security`).
    """
    for name, source in libraries():
        try:
            await valkey.call("FUNCTION", "LOAD", "REPLACE", source)
        except NotPermitted:
            logger.info("%s is not loaded by this process: its Valkey user has no permission", name)


def open_valkey(url: SecretUrl | str) -> Coalescer:
    """Open the process's shared client; it reloads the functions when an emptied server lacks them.

    User, password and certificates that `url` lacks come from the process's `ValkeySettings`.
    """
    return Coalescer(connect(ValkeySettings(valkey_url=url)), repair=load_functions)
