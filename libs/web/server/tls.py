"""TLS of HTTP clients."""

import ssl
from functools import cache


@cache
def public_authorities() -> ssl.SSLContext:
    """Return the settings that trust the public authorities, shared by all clients of a process.

    Each client would otherwise load the authorities itself, even for plain HTTP: 20 to 40 ms.
    """
    import httpx  # noqa: PLC0415 (delays the start of processes that send no requests)

    return httpx.create_ssl_context(trust_env=False)
