"""The Valkey functions, loaded by every process at its start.

Each file in `lua` is a library; so is each folder, its files joined in the order of their names. The files of
`lua/shared` are prepended to every library.
"""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

from redis.asyncio import Redis

from libs.tally.errors import ViewsUnavailable
from libs.telemetry.redaction import SecretUrl, revealed
from libs.views.client import Coalescer, Valkey, ValkeyClient, connect
from libs.views.cluster_client import ClusterClient
from libs.views.connection import NotPermitted
from libs.views.settings import ValkeySettings, address_of, server_urls, with_address
from libs.views.slot_map import Address

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
    """Load or replace the libraries on every shard; repeatable, and safe during concurrent calls.

    A shard that is unavailable gets them when it is first called. Raises `ViewsUnavailable` if all are.

    Without the permission in Valkey's ACL they stay unchanged: only users with all write permissions load them,
    since a function runs with its caller's permissions (`deploy/security`).
    """
    shards = await valkey.shards()
    loaded = await asyncio.gather(*(_load(shard.valkey) for shard in shards), return_exceptions=True)
    errors = [error for error in loaded if error is not None]
    for error in errors:
        if len(errors) == len(loaded) or not isinstance(error, ViewsUnavailable):
            raise error
        logger.warning("a shard of Valkey has no functions yet: %s", error)


async def _load(server: Valkey) -> None:
    for name, source in libraries():
        try:
            await server.call("FUNCTION", "LOAD", "REPLACE", source)
        except NotPermitted:
            logger.info("%s is not loaded by this process: its Valkey user has no permission", name)


def open_valkey(url: SecretUrl | str) -> ValkeyClient:
    """Open the process's shared client; it reloads the functions when an emptied server lacks them.

    Several servers in `url` are of a cluster. User, password and certificates that `url` lacks come from the
    process's `ValkeySettings`.
    """
    settings = ValkeySettings(valkey_url=url)
    first, *others = server_urls(revealed(settings.valkey_url))
    if not others:
        return Coalescer(connect(settings), repair=load_functions)

    def connect_to(address: Address) -> Redis:
        server = with_address(first, *address)
        return connect(settings.model_copy(update={"valkey_url": SecretUrl(server)}))

    return ClusterClient([address_of(each) for each in (first, *others)], connect_to, load_functions)
