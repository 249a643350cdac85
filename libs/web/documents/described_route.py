"""Routes described when the document is built. Apart from `openapi.py`, which processes without FastAPI import."""

from collections.abc import Callable
from typing import Any

from fastapi.routing import APIRoute

from libs.web.documents.openapi import Schema


class DescribedRoute(APIRoute):
    """Adds what `describe` returns to its operation when the document is built.

    JSON schemas of models, and what contains them, take a large part of a gateway's start if they are built then.
    """

    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Any],
        *,
        describe: Callable[[], Schema] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(path, endpoint, **options)
        self._describe = describe

    def complete_description(self) -> None:
        """Add the rest of the operation."""
        if self._describe is not None:
            self.openapi_extra = (self.openapi_extra or {}) | self._describe()
