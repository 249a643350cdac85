"""HTTP clients of tests."""

from typing import Any

import httpx

from libs.web.server.tls import public_authorities


def http_client(**options: Any) -> httpx.AsyncClient:
    """Return a client with httpx's options; they all share one set of authorities, which takes 30 ms to load."""
    return httpx.AsyncClient(verify=public_authorities(), **options)
