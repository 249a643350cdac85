"""Writes over HTTP, identified by their `Idempotency-Key`."""

from starlette.requests import Request

from libs.catalogue.commands import WriteRequest
from libs.web.door.request_parsing import parse_idempotency_key


def write_request(account: str, request: Request, idempotency_key: str | None, content: bytes) -> WriteRequest:
    """Return the write of a POST, repeatable if it has a key. Raises `ValidationFailed` for a malformed one."""
    key = parse_idempotency_key(idempotency_key)
    if key is None:
        return WriteRequest.once()
    return WriteRequest.repeatable(account, "POST", request.url.path, key, content)
