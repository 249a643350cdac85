"""`Idempotency-Key` of requests that are idempotent by themselves: refuses a key with different content."""

from hashlib import sha256
from typing import Protocol

from starlette.requests import Request

from libs.tally.errors import IdempotencyKeyReused
from libs.web.door.request_parsing import parse_idempotency_key


class RequestKeyStore(Protocol):
    """Stores the content hash of idempotency keys."""

    async def claim(self, name: str, content: str) -> str | None: ...


async def is_repetition(
    keys: RequestKeyStore, account: str, request: Request, given: str | None, body: bytes = b""
) -> bool:
    """Return whether this request is a repetition by its `Idempotency-Key` (`given`); False without one.

    Raises `IdempotencyKeyReused` if the body differs. A key's scope is account, method and path.
    """
    key = parse_idempotency_key(given)
    if key is None:
        return False
    scope = "\0".join((account, request.method, request.url.path.rstrip("/"), key))
    content = sha256(body).hexdigest()
    earlier = await keys.claim(sha256(scope.encode()).hexdigest(), content)
    if earlier not in (None, content):
        raise IdempotencyKeyReused("This Idempotency-Key was used for another request.")
    return earlier is not None
