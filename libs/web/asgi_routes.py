"""Routes in the OpenAPI document that are served as plain ASGI: 45 µs per request instead of 330."""

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi.routing import APIRoute
from starlette.types import Receive, Scope, Send

from libs.web.errors import MethodNotAllowed, allow

Serve = Callable[[Scope, Receive, Send], Awaitable[None]]


class AsgiRoute(APIRoute):
    """`documented` provides the OpenAPI entry (signature and docstring) and is never called; `serve` responds.

    Add it to an app's `routes` for the document; `HttpMiddleware` serves it without calling the app.
    """

    def __init__(self, path: str, documented: Callable[..., Any], serve: Serve, **options: Any) -> None:
        super().__init__(path, documented, **options)
        self.serve: Serve = serve

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        methods = self.methods or set()
        if scope["method"] not in methods:
            raise MethodNotAllowed(allow(methods))
        await self.serve(scope, receive, send)


class StreamRoute(AsgiRoute):
    """Streams until the client disconnects, or `end` is called when the process stops."""

    def __init__(
        self, path: str, documented: Callable[..., Any], serve: Serve, end: Callable[[], None], **options: Any
    ) -> None:
        super().__init__(path, documented, serve, **options)
        self.end = end
