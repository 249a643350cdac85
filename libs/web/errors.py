"""Maps errors to HTTP: problem details (RFC 9457), and `{"error": ...}` in the legacy API."""

import logging
from collections.abc import Iterable, MutableMapping
from http import HTTPStatus
from math import ceil
from typing import Any, Final, NamedTuple, TypeGuard

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from libs.contracts.validation import invalid_parameters
from libs.tally.errors import LogUnavailable, NotFound, Overloaded, TallyError
from libs.web.door.request_ids import request_id

Scope = MutableMapping[str, Any]

logger = logging.getLogger(__name__)

LEGACY_PREFIXES: Final = ("/legacy/", "/legacy-test/", "/media/")
"""Paths of the legacy API and of its media host."""
PROBLEM_JSON: Final = "application/problem+json"


class Row(NamedTuple):
    """Status and title of one error code."""

    status: int
    title: str


TABLE: Final[dict[str, Row]] = {
    "bad_request": Row(400, "The request is not valid HTTP"),
    "malformed_json": Row(400, "The body is not valid JSON"),
    "unauthorized": Row(401, "The API key is missing or unknown"),
    "forbidden": Row(403, "The API key does not allow this"),
    "anonymous_voting_disabled": Row(403, "The contest accepts no anonymous votes"),
    "mobile_only": Row(403, "The contest accepts free votes from mobile apps only"),
    "vote_removal_not_allowed": Row(403, "The vote cannot be removed"),
    "results_hidden": Row(403, "The results are hidden"),
    "not_found": Row(404, "Not found"),
    "quota_exceeded": Row(403, "The account has stored as much as it may"),
    "method_not_allowed": Row(405, "This path does not support this method"),
    "in_use": Row(409, "Other records refer to it"),
    "contest_not_running": Row(409, "The contest is not running"),
    "participant_not_votable": Row(409, "The participant accepts no votes"),
    "participant_limit_reached": Row(409, "The limit for this participant is reached"),
    "contest_limit_reached": Row(409, "The limit for this contest is reached"),
    "ip_limit_reached": Row(409, "The limit for this IP address is reached"),
    "contest_final": Row(409, "The contest is closed"),
    "status_transition": Row(409, "This change of status is not allowed"),
    "request_timeout": Row(408, "The request was not received in time"),
    "gone": Row(410, "The contest's secret was destroyed"),
    "version_conflict": Row(412, "The record has changed"),
    "payload_too_large": Row(413, "The body is too large"),
    "unsupported_media_type": Row(415, "The body's media type is not supported"),
    "range_not_satisfiable": Row(416, "The range is not satisfiable"),
    "validation_failed": Row(422, "The body or a parameter is invalid"),
    "malware_found": Row(422, "The malware scanner detected malware"),
    "idempotency_key_reused": Row(422, "The idempotency key was used for another request"),
    "headers_too_large": Row(431, "The headers are too large"),
    "rate_limited": Row(429, "Too many requests"),
    "purchase_unreadable": Row(500, "The purchase is recorded, but cannot be read"),
    "internal_error": Row(500, "Internal error"),
    "log_unavailable": Row(503, "The log cannot be reached"),
    "views_unavailable": Row(503, "Records and counts cannot be read at the moment"),
    "ledger_catching_up": Row(503, "Temporarily unavailable while the service recovers"),
    "scanner_unavailable": Row(503, "The malware scanner cannot be reached"),
    "overloaded": Row(503, "The service is overloaded"),
}
"""Status and title by code. An unlisted code is a bug and becomes `internal_error`."""

OUT_OF_MEMORY: Final = Overloaded(
    "The service is short of memory. Whether this request was carried out is not known: send it again, "
    "with the same id.",
    retry_after_s=1,
)
STOPPING: Final = LogUnavailable(
    "The service stops. Whether this request was carried out is not known: send it again, with the same id.",
    retry_after_s=1,
)
LEGACY_OWN: Final = frozenset({401, 405, 408, 429, 431, 500, 503})
"""Statuses that the legacy API uses; every other error there is a 400."""

METHODS: Final = ("DELETE", "GET", "PATCH", "POST", "PUT")


class Unauthorized(TallyError):
    """The key is missing, or unknown in this environment."""

    code = "unauthorized"


class Forbidden(TallyError):
    """The key lacks `permission`, and all of the `others` that would do instead."""

    code = "forbidden"

    def __init__(self, permission: str, *others: str) -> None:
        named = " or ".join((permission, *others))
        super().__init__(f"This needs a key with the permission {named}.", permission=permission)


class BadRequest(TallyError):
    """The request is not valid HTTP."""

    code = "bad_request"


class RequestTimeout(TallyError):
    code = "request_timeout"


class HeadersTooLarge(TallyError):
    """Too many bytes, or too many headers."""

    code = "headers_too_large"


class RateLimited(TallyError):
    """The caller exceeded its limit; the next request is allowed after `retry_after_s`."""

    code = "rate_limited"


class MalformedJson(TallyError):
    code = "malformed_json"


class PayloadTooLarge(TallyError):
    code = "payload_too_large"


class UnsupportedMediaType(TallyError):
    code = "unsupported_media_type"


def allow(methods: Iterable[str]) -> str:
    """Return the value of the header `Allow`; GET implies HEAD (`HttpMiddleware` serves it)."""
    taken = set(methods)
    return ", ".join(sorted(taken | {"HEAD"} if "GET" in taken else taken))


class MethodNotAllowed(TallyError):
    """`allow` is the value of the header `Allow`."""

    code = "method_not_allowed"

    def __init__(self, allow: str = "") -> None:
        super().__init__("This path does not support this method.")
        self.allow = allow


class RangeNotSatisfiable(TallyError):
    """The range starts after the end; `size` is the length of the content in bytes."""

    code = "range_not_satisfiable"

    def __init__(self, size: int) -> None:
        super().__init__(f"The range selects none of the {size} bytes.")
        self.size = size


def is_legacy(scope: Scope) -> bool:
    return f"{scope['path']}/".startswith(LEGACY_PREFIXES)


def status_of(error: TallyError) -> int:
    """Return the HTTP status of an error in the current API, also for the items of a batch."""
    return TABLE.get(error.code, TABLE["internal_error"]).status


def problem_response(error: TallyError, scope: Scope, **data: Any) -> Response:
    """Build the response for `error` in the format of the path's API; `data` adds to the error's members.

    It names the vote whose id is in the path, whatever the error: a client must know what to send again.
    """
    log_cause(error)
    code = error.code if error.code in TABLE else "internal_error"
    status, title = TABLE[code]
    headers = {"Cache-Control": "no-store"}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(max(1, ceil(error.retry_after_s)))
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, MethodNotAllowed) and error.allow:
        headers["Allow"] = error.allow
    if isinstance(error, RangeNotSatisfiable):
        headers["Content-Range"] = f"bytes */{error.size}"
    if is_legacy(scope):
        body: dict[str, Any] = {"error": {"code": code, "message": error.message}}
        if status not in LEGACY_OWN:
            status = 400
        return Response(orjson.dumps(body), status, headers, "application/json")
    body = {
        "type": f"urn:tallykeeper:problem:{code}",
        "title": title,
        "status": status,
        "detail": error.message,
        "instance": scope["path"],
        "code": code,
        "request_id": request_id(scope),
    }
    named = {name: value for name, value in scope.get("path_params", {}).items() if name == "vote_id"}
    return Response(orjson.dumps(error.data | named | data | body), status, headers, PROBLEM_JSON)


def log_cause(error: TallyError) -> None:
    """Log the cause of an error, which callers do not receive; the line has the request's id."""
    if error.cause is not None:
        logger.warning("%s: %s", error.code, error)


def error_response(error: Exception, scope: Scope, **data: Any) -> Response:
    """Build the response for any error, with `data` for the caller's; a bug is logged with its traceback."""
    if is_for_the_caller(error):
        return problem_response(error, scope, **data)
    logger.error("request %s to %s failed", request_id(scope), scope["path"], exc_info=error)
    return bug_response(error, scope)


def bug_response(error: Exception, scope: Scope) -> Response:
    """Build the response to a bug, which reveals nothing but the request's id, or to a want of memory."""
    hidden = TallyError("An internal error occurred. It is logged under the request id.")
    return problem_response(OUT_OF_MEMORY if is_want_of_memory(error) else hidden, scope)


def is_want_of_memory(error: Exception) -> bool:
    """Return whether the process got no memory; orjson says so by an error of its own."""
    return isinstance(error, MemoryError) or (
        isinstance(error, orjson.JSONDecodeError) and str(error).startswith("Not enough memory")
    )


def is_for_the_caller(error: Exception) -> TypeGuard[TallyError]:
    """Return whether the error is meant for the caller; every other one is a bug."""
    return isinstance(error, TallyError) and error.code in TABLE and error.code != TallyError.code


def handle_errors(app: Starlette) -> None:
    """Register handlers on `app` for our errors, the framework's, and bugs (which `HttpMiddleware` logs)."""
    from fastapi.exceptions import RequestValidationError  # noqa: PLC0415 (the projector serves without FastAPI)

    async def respond(request: Request, error: Exception) -> Response:
        if isinstance(error, RequestValidationError):
            error = invalid_parameters(error.errors())
        elif isinstance(error, HTTPException):
            error = _translated(error, request)
        if is_for_the_caller(error):
            return problem_response(error, request.scope)
        raise error

    async def bug(request: Request, error: Exception) -> Response:
        return bug_response(error, request.scope)

    for kind in (TallyError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, respond)
    app.add_exception_handler(Exception, bug)


def _translated(error: HTTPException, request: Request) -> Exception:
    """Return our error for one of the framework's own; others are bugs."""
    match error.status_code:
        case HTTPStatus.BAD_REQUEST:
            return MalformedJson(error.detail)
        case HTTPStatus.NOT_FOUND:
            return NotFound("There is nothing at this address.")
        case HTTPStatus.METHOD_NOT_ALLOWED:
            return MethodNotAllowed(_methods(request))
    return error


def _methods(request: Request) -> str:
    """Return the header `Allow` for all routes of the path."""
    allowed = (
        method
        for method in METHODS
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in request.app.routes)
    )
    return allow(allowed)
