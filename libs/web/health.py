"""Whether a process lives, and whether it can serve, with a reason for each thing that it depends on."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

Check = Callable[[], Awaitable[None]]
"""Returns when the dependency answers; raises, with a message for the operator, when it does not."""

CHECK_TIMEOUT_S = 2.0


def health_routes(checks: Mapping[str, Check]) -> list[Route]:
    """`/livez`, and `/readyz`: 200 when every check passes, else 503 naming what is away and why."""

    async def livez(_: Request) -> Response:
        return _json({"status": "alive"}, 200)

    async def readyz(_: Request) -> Response:
        reasons = await reasons_of(checks)
        ready = not any(reasons.values())
        dependencies = {name: reason or "ready" for name, reason in reasons.items()}
        return _json({"ready": ready, "dependencies": dependencies}, 200 if ready else 503)

    return [Route("/livez", livez), Route("/readyz", readyz)]


async def reasons_of(checks: Mapping[str, Check]) -> dict[str, str]:
    """Why each dependency is away, "" of those that are there; within `CHECK_TIMEOUT_S`."""
    return dict(zip(checks, await asyncio.gather(*map(_reason, checks.values())), strict=True))


async def _reason(check: Check) -> str:
    """Why the dependency is away, "" when it is there."""
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            await check()
    except TimeoutError:
        return f"no answer within {CHECK_TIMEOUT_S:g} s"
    except Exception as error:
        return str(error) or type(error).__name__
    return ""


def _json(body: object, status: int) -> Response:
    return Response(orjson.dumps(body), status, {"Cache-Control": "no-store"}, "application/json")
