"""New API keys of a running stack, and clients that send them."""

import httpx

from libs.catalogue.api_keys import PERMISSIONS, IssuedKey
from libs.local_stack.supervisor import Supervisor
from tests.support.deployments import issue_key
from tests.support.http_clients import http_client


async def new_key(stack: Supervisor, *permissions: str, account: str = "") -> IssuedKey:
    """Create a key of the development account or another one, with all permissions unless some are named."""
    at = stack.stack
    owner = account or at["account"]
    return await issue_key(at["kafka"], at["valkey"], at["namespace"], owner, permissions or PERMISSIONS)


async def key_with(stack: Supervisor, *permissions: str, account: str = "") -> dict[str, str]:
    """Return the headers of a new key."""
    return {"Authorization": f"Bearer {(await new_key(stack, *permissions, account=account)).api_key}"}


async def client_with(stack: Supervisor, account: str, *permissions: str) -> httpx.AsyncClient:
    """Return a client with a key of its own."""
    headers = await key_with(stack, *permissions, account=account)
    return http_client(base_url=stack.stack["base_url"], headers=headers, timeout=30)
