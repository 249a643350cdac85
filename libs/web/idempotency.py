"""`Idempotency-Key` of requests whose effect is idempotent by itself: the key must not come with other content."""

from hashlib import sha256
from typing import Protocol

from starlette.requests import Request

from libs.tally.errors import IdempotencyKeyReused
from libs.web.requests import idempotency_key


class RequestKeys(Protocol):
    """What is needed of the views."""

    async def claim(self, name: str, content: str) -> str | None: ...


async def came_before(keys: RequestKeys, account: str, request: Request, body: bytes = b"") -> bool:
    """Whether this very request came before, by the caller's key; False without one.

    Raises `IdempotencyKeyReused` where the key came with another body. Its scope is account, method and path.
    """
    key = idempotency_key(request)
    if key is None:
        return False
    scope = "\0".join((account, request.method, request.url.path.rstrip("/"), key))
    content = sha256(body).hexdigest()
    earlier = await keys.claim(sha256(scope.encode()).hexdigest(), content)
    if earlier not in (None, content):
        raise IdempotencyKeyReused("This Idempotency-Key was used for another request.")
    return earlier is not None
