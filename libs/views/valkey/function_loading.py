"""Loads the Valkey functions of this version, and opens the process's client.

Every process loads them at its start, and again when an emptied or replaced server lacks them. Libraries of other
versions stay, so that processes of two versions run side by side.
"""

import asyncio
import logging
import re
from typing import Final

from redis.asyncio import Redis

from libs.tally.errors import ViewsUnavailable
from libs.telemetry.redaction import SecretUrl, revealed
from libs.views.valkey.client import Coalescer, Valkey, ValkeyClient, connect
from libs.views.valkey.cluster_client import ClusterClient
from libs.views.valkey.connection import NotPermitted
from libs.views.valkey.function_libraries import libraries
from libs.views.valkey.settings import ValkeySettings, address_of, server_urls, with_address
from libs.views.valkey.slot_map import Address

ALREADY_LOADED = "already exists"
"""Part of Valkey's answer to a library that it has."""

LOADED_NAME: Final = re.compile(r"tally_(\w+)_([0-9a-f]+)")

logger = logging.getLogger(__name__)


async def load_functions(valkey: Valkey) -> None:
    """Load this version's libraries on every shard; repeatable, and safe during concurrent calls.

    A shard that is unavailable gets them when it is first called. Raises `ViewsUnavailable` if all are.

    Only users with the permission in Valkey's ACL load them; other processes need one of this version with the
    permission, since a function runs with its caller's permissions (`deploy/security`).
    """
    shards = await valkey.shards()
    loaded = await asyncio.gather(*(_load(shard.valkey) for shard in shards), return_exceptions=True)
    errors = [error for error in loaded if isinstance(error, BaseException)]
    for error in errors:
        if len(errors) == len(loaded) or not isinstance(error, ViewsUnavailable):
            raise error
        logger.warning("a shard of Valkey has no functions yet: %s", error)


async def _load(server: Valkey) -> bool:
    """Load the libraries that a server lacks; False if the user has no permission."""
    for library in libraries():
        try:
            await server.call("FUNCTION", "LOAD", library.source)
        except NotPermitted:
            return False
        except ViewsUnavailable as error:
            if ALREADY_LOADED not in (error.cause or ""):
                raise
    return True


async def loaded_libraries(server: Valkey) -> dict[str, list[str]]:
    """Return the names of the libraries that a server has, by version."""
    found: dict[str, list[str]] = {}
    for flat in await server.call("FUNCTION", "LIST", "LIBRARYNAME", "tally_*"):
        library = dict(zip(flat[::2], flat[1::2], strict=True))[b"library_name"].decode()
        if parts := LOADED_NAME.fullmatch(library):
            found.setdefault(parts[2], []).append(parts[1])
    return found


async def _load_missing(server: Valkey) -> None:
    """Load the functions into a server that lacked one of them when it was called."""
    if not await _load(server):
        logger.warning(
            "Valkey lacks the functions of this version, and this process's user may not load them: "
            "start a projector of this version, or run `tally topics create` with it"
        )


def open_valkey(url: SecretUrl | str) -> ValkeyClient:
    """Open the process's shared client; it reloads the functions when an emptied server lacks them.

    Several servers in `url` are of a cluster. User, password and certificates that `url` lacks come from the
    process's `ValkeySettings`.
    """
    settings = ValkeySettings(valkey_url=url)
    first, *others = server_urls(revealed(settings.valkey_url))
    if not others:
        return Coalescer(connect(settings), repair=_load_missing)

    def connect_to(address: Address) -> Redis:
        server = with_address(first, *address)
        return connect(settings.model_copy(update={"valkey_url": SecretUrl(server)}))

    return ClusterClient([address_of(each) for each in (first, *others)], connect_to, _load_missing)
