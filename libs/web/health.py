"""Liveness and readiness of a process, dependency by dependency; the reasons are for operators and the log."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

import orjson
from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from libs.telemetry.redaction import redacted
from libs.web.cached_value import OncePerSecond

Check = Callable[[], Awaitable[None]]
"""Returns when the dependency answers; raises, with a message for the operator, when it does not."""

CHECK_TIMEOUT_S = 2.0
READY = "ready"
UNAVAILABLE = "unavailable"

logger = logging.getLogger(__name__)


class Liveness(BaseModel):
    status: str = Field(description="Always `alive`.")


class Readiness(BaseModel):
    ready: bool = Field(description="Whether it has what it needs.")
    dependencies: dict[str, str] = Field(
        description="`ready` or `unavailable`, by dependency; most requests can do without some of them. "
        "Named only at a port that serves operators. The "
        "process's log, and `tally doctor`, say why."
    )


class _Endpoints(NamedTuple):
    livez: Callable[[Request], Awaitable[Response]]
    readyz: Callable[[Request], Awaitable[Response]]


def health_routes(checks: Mapping[str, Check], optional_checks: Mapping[str, Check]) -> list[Route]:
    """`/livez`, and `/readyz`: 200 when every check passes, else 503 naming what is away; the log says why.

    What fails among `optional_checks` is named, too, and keeps nobody from being ready.
    """
    livez, readyz = _endpoints(checks, optional_checks)
    return [Route("/livez", livez), Route("/readyz", readyz)]


def health_router(checks: Mapping[str, Check], optional_checks: Mapping[str, Check]) -> APIRouter:
    """`health_routes`, described."""
    livez, readyz = _endpoints(checks, optional_checks)
    router = APIRouter(tags=["operations"])
    router.add_api_route("/livez", livez, responses={200: {"description": "It does.", "model": Liveness}})
    away = "Something that it needs is away."
    router.add_api_route(
        "/readyz",
        readyz,
        responses={
            200: {"description": "It can.", "model": Readiness},
            503: {"description": away, "model": Readiness},
        },
    )
    return router


async def reasons_of(checks: Mapping[str, Check]) -> dict[str, str]:
    """Why each dependency is away, for operators, "" of those that are there; within `CHECK_TIMEOUT_S`."""
    return dict(zip(checks, await asyncio.gather(*map(_reason, checks.values())), strict=True))


def _endpoints(checks: Mapping[str, Check], optional_checks: Mapping[str, Check]) -> _Endpoints:
    logged: dict[str, str] = {}

    async def check_liveness(_: Request) -> Response:
        """Tell whether the process works.

        It is answered by the loop that does all the work: where that is stuck, no answer comes.
        """
        return _json({"status": "alive"}, 200)

    async def look() -> dict[str, str]:
        reasons = await reasons_of({**optional_checks, **checks})
        _log_changes(logged, reasons)
        return reasons

    latest = OncePerSecond(look)

    async def check_readiness(request: Request) -> Response:
        """Tell whether the process can serve.

        Each dependency is `ready` or `unavailable`; they are named only where operators are served. It is looked
        at once a second at most.
        """
        reasons = await latest.get()
        ready = not any(reasons[name] for name in checks)
        dependencies = {name: UNAVAILABLE if reason else READY for name, reason in reasons.items()}
        if not request.scope.get("state", {}).get("shows_operations", True):
            dependencies = {}
        return _json({"ready": ready, "dependencies": dependencies}, 200 if ready else 503)

    return _Endpoints(check_liveness, check_readiness)


async def _reason(check: Check) -> str:
    """Why the dependency is away, "" when it is there."""
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            await check()
    except TimeoutError:
        return f"no answer within {CHECK_TIMEOUT_S:g} s"
    except Exception as error:
        return redacted(str(error) or type(error).__name__)
    return ""


def _log_changes(logged: dict[str, str], reasons: Mapping[str, str]) -> None:
    """One line for each new reason: probes ask every few seconds."""
    for name, reason in reasons.items():
        if reason and reason != logged.get(name):
            logger.warning("not ready: %s: %s", name, reason)
    logged.update(reasons)


def _json(body: object, status: int) -> Response:
    return Response(orjson.dumps(body), status, {"Cache-Control": "no-store"}, "application/json")
