"""Default caching of responses."""

from typing import Final

NOT_SHARED: Final = (b"cache-control", b"private, no-cache")
"""Header of GET responses without `Cache-Control`: by default, shared caches skip responses to requests with
`Authorization`, but not with a cookie."""
