"""A partition's API keys are read in short calls, all at one version."""

from typing import Any

import pytest

from libs.contracts.catalogue_events import KeyIssued, KeyRevoked
from libs.contracts.log_records import LogRecord, Position
from libs.tally.errors import ViewsUnavailable
from libs.tally.events import LogCreated
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.valkey.client import ValkeyClient
from tests.support.servers.freshness import make_fresh

ISSUED: dict[str, Any] = {"account": "acme", "at": 1, "sha256": "00", "permissions": ()}
KEYS = 2_000


class Keys:
    """One partition, and the number of keys in each reply; a key is revoked after each page in `revoke_after`."""

    def __init__(self, views: CatalogueViews, monkeypatch: pytest.MonkeyPatch) -> None:
        self.views = views
        self.sizes: list[int] = []
        self.revoke_after: set[int] = set()
        self._end = 0
        self._read = views.fresh.read
        monkeypatch.setattr(views.fresh, "read", self._watched)

    async def _watched(self, *args: Any) -> Any:
        reply = await self._read(*args)
        self.sizes.append(len(reply[3:]) // 2)
        if len(self.sizes) in self.revoke_after:
            revoked: dict[str, Any] = {"command_id": f"r{self._end}", "account": "acme", "at": 1}
            await self.fold(KeyRevoked(**revoked, key_id=f"k{self._end - KEYS}"))
        return reply

    async def fold(self, *events: Any) -> None:
        entries = [(LogRecord(at, 1_000 + at, b""), event) for at, event in enumerate(events, self._end)]
        await self.views.apply(0, Position("log", self._end), entries, self._end + len(events))
        self._end += len(events)


@pytest.fixture
async def keys(valkey: ValkeyClient, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Keys:
    keys = Keys(CatalogueViews(valkey, namespace), monkeypatch)
    issued = [KeyIssued(**ISSUED, command_id=f"c{n}", key_id=f"k{n}") for n in range(KEYS)]
    await keys.fold(LogCreated("log"), *issued)
    await make_fresh(keys.views.fresh)
    return keys


async def test_they_are_read_in_pages(keys: Keys) -> None:
    found = await keys.views.keys(0, "")
    assert {row.key_id for row in found.rows or ()} == {f"k{n}" for n in range(KEYS)}
    assert max(keys.sizes) < KEYS / 4
    assert (await keys.views.keys(0, found.version)).rows is None


async def test_a_key_revoked_meanwhile_is_not_among_them(keys: Keys) -> None:
    """If some change between all pages, they are unavailable for now."""
    keys.revoke_after = {1, 2}
    found = await keys.views.keys(0, "")
    assert {row.key_id for row in found.rows or ()} == {f"k{n}" for n in range(KEYS) if n not in (1, 2)}
    keys.revoke_after = set(range(100))
    with pytest.raises(ViewsUnavailable):
        await keys.views.keys(0, "")
