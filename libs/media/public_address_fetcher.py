"""Fetches callers' URLs from public IP addresses only.

A host name is resolved once, all of its addresses must be public, and the connection goes to one of these, so that
later DNS changes have no effect (DNS rebinding). The same applies to every redirect.
"""

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import IO, Final

import httpx

from libs.contracts.ip_addresses import plain_address
from libs.media.allowed_addresses import Allowed, NotFetched
from libs.web.server.tls import public_authorities

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Returns the IP addresses of a host, for a port. Raises OSError."""

PORTS: Final = {"http": 80, "https": 443}
MAX_PORT: Final = 65_535
MOST_REDIRECTS: Final = 5
MAX_URL_LENGTH: Final = 2048
WRONG_IN_URLS: Final = re.compile(r"[\s\\\x00-\x1f\x7f]")
AWAY: Final = "cannot be fetched: no answer from there at a public address"
"""The same message for every cause, to reveal nothing about internal networks, not even open ports."""


async def resolve(host: str, port: int) -> list[str]:
    """Resolve with the system's resolver, in its order."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class PublicTransport(httpx.AsyncBaseTransport):
    """Sends a request to an IP address that it has checked, with the URL's host name for Host and TLS."""

    def __init__(self, allowed: Allowed, lookup: Resolve, verify: ssl.SSLContext) -> None:
        self._allowed = allowed
        self._lookup = lookup
        # pooled connections are found by IP address, whatever host name their certificate was checked for
        self._inner = httpx.AsyncHTTPTransport(
            verify=verify, trust_env=False, limits=httpx.Limits(max_connections=100, max_keepalive_connections=0)
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request to a checked address. Raises `NotFetched`."""
        url = request.url
        port = url.port or PORTS.get(url.scheme)
        if url.scheme not in PORTS or not url.host or not port or port > MAX_PORT:
            raise NotFetched("must be an http or https URL")
        if url.userinfo:
            raise NotFetched("must not have a user name or password")
        for address in await self._addresses(url.host, port):
            pinned = httpx.Request(
                request.method,
                url.copy_with(host=address),
                headers=request.headers,
                extensions=request.extensions | {"sni_hostname": url.host},
            )
            try:
                return await self._inner.handle_async_request(pinned)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
        raise NotFetched(AWAY)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _addresses(self, host: str, port: int) -> list[str]:
        try:
            found = await self._lookup(host, port)
            if all(self._allowed.admits(host, plain_address(address)) for address in found):
                return found
        except (OSError, ValueError):
            pass  # an unknown or invalid host name
        raise NotFetched(AWAY)


class Fetcher:
    """Downloads at most `max_bytes` from a URL, within `timeout_s` in all.

    It ignores the environment's proxies, which would resolve names themselves.
    """

    def __init__(
        self,
        allowed: Allowed,
        max_bytes: int,
        timeout_s: float,
        lookup: Resolve = resolve,
        verify: ssl.SSLContext | None = None,
    ) -> None:
        self._client = httpx.AsyncClient(
            transport=PublicTransport(allowed, lookup, verify or public_authorities()),
            trust_env=False,
            follow_redirects=True,
            max_redirects=MOST_REDIRECTS,
            timeout=timeout_s,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            headers={"User-Agent": "Tallykeeper", "Accept": "image/*", "Accept-Encoding": "identity"},
        )
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s

    async def close(self) -> None:
        await self._client.aclose()

    async def fetch(self, url: str, into: IO[bytes]) -> None:
        """Download the URL's content. Raises `NotFetched`."""
        if len(url) > MAX_URL_LENGTH or WRONG_IN_URLS.search(url):
            raise NotFetched("must be a URL: spaces as %20, no backslashes")
        try:
            async with asyncio.timeout(self._timeout_s), self._client.stream("GET", url) as answer:
                if answer.status_code != httpx.codes.OK:
                    raise NotFetched(f"cannot be fetched: the response status was {answer.status_code}")
                size = 0
                async for chunk in answer.aiter_raw():
                    size += len(chunk)
                    if size > self._max_bytes:
                        raise NotFetched(f"has more than the {self._max_bytes} bytes allowed")
                    into.write(chunk)
        except (httpx.InvalidURL, UnicodeError):  # the latter for invalid IDNA host names
            raise NotFetched("must be an http or https URL") from None
        except httpx.TooManyRedirects:
            raise NotFetched(f"cannot be fetched: it redirects more than {MOST_REDIRECTS} times") from None
        except (httpx.HTTPError, TimeoutError):
            raise NotFetched(AWAY) from None
