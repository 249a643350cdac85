"""HTTP clients of tests, and what they are answered."""

from typing import Any

import httpx

from libs.web.server.tls import public_authorities


def http_client(**options: Any) -> httpx.AsyncClient:
    """Return a client with httpx's options; they all share one set of authorities, which takes 30 ms to load."""
    return httpx.AsyncClient(verify=public_authorities(), **options)


def ok(answer: httpx.Response, status: int = 200) -> Any:
    """Return the JSON of an answer, which must have this status."""
    assert answer.status_code == status, answer.text
    return answer.json()
