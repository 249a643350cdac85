"""Routes in the OpenAPI document that are served as plain ASGI: 45 µs per request instead of 330."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from libs.web.documents.described_route import DescribedRoute
from libs.web.server.hot_requests import AsgiRequest, Handler

Serve = Callable[[Scope, Receive, Send], Awaitable[None]]


class AsgiRoute(DescribedRoute):
    """`documented` provides the OpenAPI entry (signature and docstring) and is never called; `serve` responds.

    Add it to an app's `routes` for the document; `HttpMiddleware` serves it without calling the app.
    """

    def __init__(self, path: str, documented: Callable[..., Any], serve: Serve, **options: Any) -> None:
        super().__init__(path, documented, **options)
        self.serve: Serve = serve

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in (self.methods or ()):
            raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED)
        await self.serve(scope, receive, send)


class PlainRoute(AsgiRoute):
    """Responds with what its `handler` returns, which is its documentation, too."""

    def __init__(self, path: str, handler: Callable[[Request], Awaitable[Response]], **options: Any) -> None:
        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            await (await handler(Request(scope, receive)))(scope, receive, send)

        super().__init__(path, handler, serve, **options)


class StreamRoute(AsgiRoute):
    """Streams until the client disconnects, or `end` is called when the process stops."""

    def __init__(
        self, path: str, documented: Callable[..., Any], serve: Serve, end: Callable[[], None], **options: Any
    ) -> None:
        super().__init__(path, documented, serve, **options)
        self.end = end


class HotRoute(AsgiRoute):
    """Replies with what `handler` returns: without ASGI to plain requests with at most `most_bytes` of body."""

    def __init__(
        self, path: str, documented: Callable[..., Any], handler: Handler, most_bytes: int = -1, **options: Any
    ) -> None:
        """By default all requests are served through ASGI."""

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            status, headers, body = await handler(AsgiRequest(scope, receive))
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body})

        super().__init__(path, documented, serve, **options)
        self.handler: Handler = handler
        self.most_bytes: Final = most_bytes
