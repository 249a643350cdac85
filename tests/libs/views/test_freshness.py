"""Views are read only while fresh: at the log's end as read during this run of their server."""

from contextlib import suppress
from typing import Any

import pytest

from libs.contracts.catalogue_events import KeyIssued
from libs.contracts.log_records import LogRecord, Position
from libs.contracts.topics import CATALOGUE_PARTITIONS, catalogue_topic
from libs.tally.errors import ViewsUnavailable
from libs.tally.events import LogCreated
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.generations.generations import Generations, Swap
from libs.views.valkey.client import ValkeyClient
from libs.views.valkey.hash_tags import key_base
from tests.support.servers.freshness import make_fresh

LOG = "log"
ISSUED: dict[str, Any] = {"account": "acme", "at": 1, "sha256": "00", "permissions": ()}
ENTRIES: list[Any] = [
    (LogRecord(0, 1, b""), LogCreated(LOG)),
    *((LogRecord(n, 1, b""), KeyIssued(**ISSUED, command_id=f"c{n}", key_id=f"k{n}")) for n in range(1, 6)),
]


class View:
    """One partition, folded by hand."""

    def __init__(self, valkey: ValkeyClient, namespace: str) -> None:
        self.valkey = valkey
        self.base = key_base(namespace, "catalogue", 0, CATALOGUE_PARTITIONS)
        self.views = CatalogueViews(valkey, namespace)
        self.another_process = CatalogueViews(valkey, namespace)

    async def fold(self, start: int, end: int) -> None:
        await self.views.apply(0, Position(LOG, start), ENTRIES[start:end], end)

    async def empty(self, part: str = "*") -> None:
        await self.valkey.call("DEL", *await self.valkey.call("KEYS", f"{self.base}:{part}"))

    async def keys(self) -> int:
        rows = (await self.views.keys(0, "")).rows
        assert rows is not None
        return len(rows)


@pytest.fixture
def view(valkey: ValkeyClient, namespace: str) -> View:
    return View(valkey, namespace)


async def every_read(views: CatalogueViews) -> list[str]:
    """Those that answer."""
    reads = {
        "mark": views.mark(0),
        "get": views.get("d", "contests", "x"),
        "page": views.page("d", "contests", limit=1),
        "contest_config": views.contest_config("d", "x"),
        "due": views.due(0, 1),
        "outcomes": views.outcomes(0, ["c"]),
        "keys": views.keys(0, ""),
        "find_owner": views.find_owner("contests", "x"),
    }
    assert catalogue_topic("any").partition_of("d") == 0
    answered = []
    for name, read in reads.items():
        with suppress(ViewsUnavailable):
            await read
            answered.append(name)
    return answered


async def test_nothing_is_read_of_a_view_that_was_never_at_the_end(view: View) -> None:
    assert await every_read(view.views) == []
    await view.fold(0, 6)
    assert await every_read(view.views) == []
    assert await view.views.position(0) == Position(LOG, 6)
    await make_fresh(view.views.fresh)
    answered = {"mark", "get", "page", "contest_config", "due", "outcomes", "keys"}
    assert set(await every_read(view.views)) == answered


@pytest.mark.parametrize("lost", ["*", "g1:position", "generations"])
async def test_a_view_that_begins_again_is_fresh_again_only_at_the_end(view: View, lost: str) -> None:
    """In the same run of the server, as after FLUSHALL; also for processes that have seen nothing of it."""
    await view.fold(0, 6)
    await make_fresh(view.views.fresh)
    await view.empty(lost)
    assert await every_read(view.another_process) == []
    if lost != "generations":
        await view.fold(0, 3)
    assert await every_read(view.another_process) == []


async def test_nobody_reads_what_is_older_than_what_he_has_read(view: View) -> None:
    """Whatever the server says: of an earlier state that was restored into a running one."""
    await view.fold(0, 6)
    await make_fresh(view.views.fresh)
    assert await view.keys() == 5
    await view.valkey.call("HSET", f"{view.base}:g1:position", "offset", 5)
    assert await every_read(view.views) == []
    await view.valkey.call("HSET", f"{view.base}:g1:position", "offset", 6)
    assert await view.keys() == 5


async def test_a_swap_keeps_a_view_fresh(view: View, namespace: str) -> None:
    await view.fold(0, 6)
    await make_fresh(view.views.fresh)
    generations = Generations(view.valkey, namespace, "catalogue", catalogue_topic(namespace))
    await generations.open(0, 2)
    await CatalogueViews(view.valkey, namespace, 2).apply(0, Position(LOG, 0), ENTRIES, 6)
    assert await generations.swap(0, 2) == Swap(True)
    assert await view.keys() == 5
