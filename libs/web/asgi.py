"""What every HTTP process puts around its app: plain ASGI, a few microseconds a request."""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import ClientDisconnect

from libs.web.errors import Scope, bug_response, log_bug

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Front:
    """Answers every path with and without a trailing slash, directly; a bug is a 500 problem, never a stack trace.

    Routes are declared without the trailing slash, on apps made with `redirect_slashes=False`.
    """

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path: str = scope["path"]
        if path[-1:] == "/" and len(path) > 1 and not scope["raw_path"].upper().endswith(b"%2F"):
            scope["path"] = path.rstrip("/") or "/"
        started = False

        async def watched(message: Any) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, receive, watched)
        except ClientDisconnect:
            return  # nobody is there to be answered
        except Exception as error:
            log_bug(error, scope)
            if not started:
                await bug_response(scope)(scope, receive, watched)
