"""Routes that are documented like every other one, and served as bare ASGI: 45 µs a request instead of 330."""

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi.routing import APIRoute
from starlette.types import Receive, Scope, Send

from libs.web.errors import MethodNotAllowed, allow

Serve = Callable[[Scope, Receive, Send], Awaitable[None]]


class AsgiRoute(APIRoute):
    """`documented` gives the OpenAPI entry (its signature and docstring) and is never called; `serve` answers.

    Put it into an app's `routes` itself, for the document; `Front` serves it before the app is asked.
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
    """A hot route whose answers go on until the client goes, or `end` is called: when the process is to stop."""

    def __init__(
        self, path: str, documented: Callable[..., Any], serve: Serve, end: Callable[[], None], **options: Any
    ) -> None:
        super().__init__(path, documented, serve, **options)
        self.end = end
