"""Request ids for responses and the log."""

import re
from collections.abc import MutableMapping
from typing import Any, Final

from uuid_utils import uuid7

HEADER: Final = b"x-request-id"
_TAKEN: Final = re.compile(rb"[A-Za-z0-9_.:/@=+-]{1,128}")


def request_id(scope: MutableMapping[str, Any]) -> str:
    """Return the caller's `X-Request-Id` if it is safe to log, otherwise an id generated on first use."""
    state = scope.setdefault("state", {})
    found: str | None = state.get("request_id")
    if found is None:
        found = state["request_id"] = _given(scope) or uuid7().hex
    return found


def _given(scope: MutableMapping[str, Any]) -> str | None:
    for name, value in scope.get("headers", ()):
        if name == HEADER:
            return value.decode() if _TAKEN.fullmatch(value) else None
    return None
