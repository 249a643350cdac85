"""New API keys of a running stack, and clients that send them."""

from collections.abc import Mapping
from typing import Any

import httpx

from libs.catalogue.api_keys import PERMISSIONS, IssuedKey
from libs.local_stack.supervisor import Supervisor
from tests.support.clients.http_clients import http_client
from tests.support.servers.deployments import issue_key


def development_client(stack: Mapping[str, Any], **options: Any) -> httpx.AsyncClient:
    """Return a client of the stack so described with the development key, which has every permission."""
    headers = {"Authorization": f"Bearer {stack['api_key']}"}
    return http_client(**{"base_url": stack["base_url"], "headers": headers, "timeout": 30, **options})


async def new_key(stack: Supervisor, *permissions: str, account: str = "") -> IssuedKey:
    """Create a key of the development account or another one, with all permissions unless some are named."""
    at = stack.stack
    owner = account or at["account"]
    return await issue_key(at["kafka"], at["valkey"], at["namespace"], owner, permissions or PERMISSIONS)


async def client_with(stack: Supervisor, account: str, *permissions: str) -> httpx.AsyncClient:
    """Return a client with a key of its own."""
    key = await new_key(stack, *permissions, account=account)
    return development_client(stack.stack | {"api_key": key.api_key})
