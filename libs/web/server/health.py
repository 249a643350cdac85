"""Liveness and readiness of a process, by dependency; failure reasons go to operators and the log only."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from libs.telemetry.redaction import redacted
from libs.web.responses import NO_STORE, OncePerSecond, json_response

Handler = Callable[[Request], Awaitable[Response]]
Check = Callable[[], Awaitable[None]]
"""Returns if the dependency is available; otherwise raises, with a message for the operator."""

CHECK_TIMEOUT_S = 2.0
READY = "ready"
UNAVAILABLE = "unavailable"

logger = logging.getLogger(__name__)


def health_routes(
    checks: Mapping[str, Check], optional_checks: Mapping[str, Check], recorded_on: str | None = None
) -> list[Route]:
    """Return `/livez` and `/readyz`: 200 if every check passes, else 503 with the unavailable dependencies.

    Failures of `optional_checks` are listed too, but do not affect the status. Reasons are logged. `recorded_on`
    is the sentence on what an acknowledged record rests on.
    """
    livez, readyz = endpoints(checks, optional_checks, recorded_on)
    return [Route("/livez", livez), Route("/readyz", readyz)]


async def reasons_of(checks: Mapping[str, Check]) -> dict[str, str]:
    """Return for operators why each dependency is unavailable, "" if available; within `CHECK_TIMEOUT_S`."""
    return dict(zip(checks, await asyncio.gather(*map(_reason, checks.values())), strict=True))


def endpoints(
    checks: Mapping[str, Check], optional_checks: Mapping[str, Check], recorded_on: str | None = None
) -> tuple[Handler, Handler]:
    """Return the handlers of `/livez` and `/readyz`, which share what they have logged and checked."""
    logged: dict[str, str] = {}

    async def check_liveness(_: Request) -> Response:
        """Report whether the process is alive.

        The process's event loop responds: if it is blocked, there is no response.
        """
        return json_response({"status": "alive"}, 200, NO_STORE)

    async def run_checks() -> dict[str, str]:
        reasons = await reasons_of({**optional_checks, **checks})
        _log_changes(logged, reasons)
        return reasons

    latest = OncePerSecond(run_checks)

    async def check_readiness(request: Request) -> Response:
        """Report whether the process can serve requests.

        Each dependency is `ready` or `unavailable`; they are listed only on the operators' port, as is what
        recorded votes rest on. Dependencies are checked at most once a second. A process that is about to stop is
        not ready.
        """
        if getattr(getattr(request.scope.get("app"), "state", None), "draining", False):
            return json_response({"ready": False, "dependencies": {}}, 503, NO_STORE)
        reasons = await latest.get()
        ready = not any(reasons[name] for name in checks)
        dependencies = {name: UNAVAILABLE if reason else READY for name, reason in reasons.items()}
        status = 200 if ready else 503
        if not request.scope.get("state", {}).get("shows_operations", True):
            return json_response({"ready": ready, "dependencies": {}}, status, NO_STORE)
        recorded = {} if recorded_on is None else {"recorded_on": recorded_on}
        return json_response({"ready": ready, "dependencies": dependencies, **recorded}, status, NO_STORE)

    return check_liveness, check_readiness


async def _reason(check: Check) -> str:
    """Return why the dependency is unavailable, "" if it is available."""
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            await check()
    except TimeoutError:
        return f"no answer within {CHECK_TIMEOUT_S:g} s"
    except Exception as error:
        return redacted(str(error) or type(error).__name__)
    return ""


def _log_changes(logged: dict[str, str], reasons: Mapping[str, str]) -> None:
    """Log each new reason once: probes run every few seconds."""
    for name, reason in reasons.items():
        if reason and reason != logged.get(name):
            logger.warning("not ready: %s: %s", name, reason)
    logged.update(reasons)
