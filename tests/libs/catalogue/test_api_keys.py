"""API keys: shown once, valid and revoked within a second in every process."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Collection
from functools import partial

import pytest

from libs.catalogue.api_keys import PERMISSIONS, ApiKeyCache, find_key, issue_key, list_keys, revoke_key
from libs.catalogue.errors import UnknownKey
from libs.contracts.catalogue_events import ApiKey, ApiKeys
from libs.contracts.topics import CATALOGUE_PARTITIONS
from libs.tally.errors import ViewsUnavailable
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.valkey.request_counters import KeyUses
from tests.support.builders.catalogue import Catalogue, open_catalogue
from tests.support.eventually import eventually


@pytest.fixture
async def ring(catalogue: Catalogue) -> AsyncIterator[ApiKeyCache]:
    ring = ApiKeyCache(catalogue.views)
    await ring.refresh()
    async with ring.refreshing():
        yield ring


async def test_a_new_key_is_found_at_once_and_is_itself_nowhere_but_with_its_holder(
    catalogue: Catalogue, ring: ApiKeyCache, account: str
) -> None:
    issued = await issue_key(catalogue.writer, account, ["content:read", "votes:write"])
    key = await ring.find(issued.api_key)
    assert key is not None
    assert (key.key_id, key.account) == (issued.key_id, account)
    assert key.permissions == ("content:read", "votes:write")
    row = next(row for row in await list_keys(catalogue.views) if row.key_id == issued.key_id)
    assert row.sha256 == hashlib.sha256(issued.api_key.encode()).hexdigest()
    assert issued.api_key.split("_", 2)[2] not in repr(row)


async def test_a_revoked_key_is_forgotten_within_a_second(
    catalogue: Catalogue, ring: ApiKeyCache, account: str
) -> None:
    issued = await issue_key(catalogue.writer, account, PERMISSIONS)
    assert await ring.find(issued.api_key)
    await revoke_key(catalogue.writer, await find_key(catalogue.views, issued.key_id))
    await eventually(lambda: ring.get(issued.api_key) is None)
    with pytest.raises(UnknownKey):
        await revoke_key(catalogue.writer, await find_key(catalogue.views, issued.key_id))


async def test_almost_a_key_is_none(catalogue: Catalogue, ring: ApiKeyCache, account: str) -> None:
    issued = await issue_key(catalogue.writer, account, PERMISSIONS)
    other = await issue_key(catalogue.writer, account, PERMISSIONS)
    assert await ring.find(issued.api_key)
    prefix, secret = issued.api_key[:20], other.api_key[20:]
    for wrong in (prefix + secret, issued.api_key[:-1], issued.api_key + "x", "", "tk_", issued.api_key.upper()):
        assert await ring.find(wrong) is None


async def test_uses_are_written_together_and_again_where_valkey_was_away() -> None:
    class Uses(KeyUses):
        def __init__(self) -> None:
            self.noted: list[set[str]] = []
            self.is_away = True

        async def note(self, key_ids: Collection[str]) -> None:
            if self.is_away:
                raise ViewsUnavailable("away")
            self.noted.append(set(key_ids))

    uses = Uses()
    ring = ApiKeyCache(Views(), uses)
    async with ring.refreshing():
        for key_id in "aba":
            ring.mark_used(key_id)
        await ring.note_uses()
        uses.is_away = False
        ring.mark_used("c")
    assert uses.noted == [{"a", "b", "c"}]
    await ring.note_uses()
    assert len(uses.noted) == 1


async def test_keys_of_one_world_are_unknown_in_the_other(
    kafka: str, valkey_address: str, namespace: str, catalogue: Catalogue, account: str
) -> None:
    issued = await issue_key(catalogue.writer, account, PERMISSIONS)
    async with open_catalogue(kafka, valkey_address, namespace) as other, other.folding():
        assert await ApiKeyCache(other.views).find(issued.api_key) is None


class Views(CatalogueViews):
    """Keys as the test says, in the first partition; `away` are those that cannot be read now."""

    def __init__(self, *rows: ApiKey, away: Collection[int] = ()) -> None:
        self.answer = ApiKeys("1", rows)
        self.away = away
        self.asked = 0

    async def keys(self, partition: int, known_version: str) -> ApiKeys:
        self.asked += 1
        if partition in self.away:
            raise ViewsUnavailable("away")
        return self.answer if partition == 0 else ApiKeys("1", ())


TOKEN = "tk_0123456789abcdef_" + "x" * 43
ROW = ApiKey("a", "0123456789abcdef", hashlib.sha256(TOKEN.encode()).hexdigest(), (), 1)
EVERY = range(CATALOGUE_PARTITIONS)


async def test_known_keys_hold_while_the_views_cannot_be_read() -> None:
    views = Views(ROW)
    ring = ApiKeyCache(views)
    await ring.refresh()
    views.away = EVERY
    with pytest.raises(ViewsUnavailable):
        await ring.refresh()
    assert ring.get(TOKEN)
    await ring.check()
    views.away, views.answer = (), ApiKeys("2", ())
    await ring.refresh()
    assert ring.get(TOKEN) is None


async def test_until_keys_have_been_read_a_process_is_not_ready_and_refuses_none() -> None:
    ring = ApiKeyCache(Views(away=EVERY))
    for read in (ring.refresh, ring.check, partial(ring.find, TOKEN)):
        with pytest.raises(ViewsUnavailable):
            await read()


async def test_one_partition_that_cannot_be_read_hides_no_other() -> None:
    """New and revoked keys of the others hold; one that may lie in this one is in doubt; the process is ready."""
    views = Views(ROW, away=[2])
    ring = ApiKeyCache(views)
    assert await ring.find(TOKEN)
    with pytest.raises(ViewsUnavailable):
        await ring.find("tk_aaaaaaaaaaaaaaaa_" + "x" * 43)
    await ring.check()
    views.answer = ApiKeys("2", ())
    with pytest.raises(ViewsUnavailable):
        await ring.refresh()
    assert ring.get(TOKEN) is None
    views.away = ()
    await ring.refresh()


async def test_a_partition_whose_server_hangs_delays_no_other_keys() -> None:
    class Hanging(Views):
        async def keys(self, partition: int, known_version: str) -> ApiKeys:
            if partition == 2:
                await asyncio.Event().wait()
            return await super().keys(partition, known_version)

    views = Hanging(ROW)
    ring = ApiKeyCache(views)
    async with ring.refreshing():
        await eventually(lambda: ring.get(TOKEN))
        await ring.check()
        views.answer = ApiKeys("2", ())
        await eventually(lambda: ring.get(TOKEN) is None)


async def test_a_wrong_text_is_searched_for_whether_or_not_its_key_exists() -> None:
    """So the time of the refusal does not tell."""
    views = Views(ROW)
    ring = ApiKeyCache(views)
    await ring.refresh()
    views.asked = 0
    for token in (TOKEN[:-1] + "y", TOKEN.replace("0123456789abcdef", "f" * 16)):
        assert await ring.find(token) is None
        assert views.asked == CATALOGUE_PARTITIONS
        views.asked = 0
    assert await ring.find(TOKEN)
    assert await ring.find("tk_" + "x" * 40) is None
    assert views.asked == 0


async def test_a_flood_of_unknown_keys_asks_the_views_once() -> None:
    views = Views()
    ring = ApiKeyCache(views)
    assert await asyncio.gather(*(ring.find(TOKEN[:-1] + letter) for letter in "abcdefgh")) == [None] * 8
    assert views.asked == 4
