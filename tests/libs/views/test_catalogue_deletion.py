"""A record is deleted with all that belongs to it: for readers at once, in Valkey by short calls."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from libs.contracts.catalogue_events import CatalogueEvent, OutcomeKind, RecordCreated, RecordDeleted
from libs.contracts.log_records import LogRecord, Position
from libs.contracts.topics import catalogue_topic
from libs.tally.events import LogCreated
from libs.views.catalogue.catalogue_views import CatalogueViews, Entry, _item
from libs.views.generations.generations import Generations, Moving, State
from libs.views.valkey.client import ValkeyClient
from libs.views.valkey.function_libraries import call_function
from tests.support.freshness import make_fresh

ACCOUNT, LOG, NOW_MS = "account", "the-log", 1_790_000_000_000
PARTICIPANTS = 180
"""More than three calls remove."""


def created(offset: int, resource: str, key: str, *, image: str = "", contest: str = "") -> RecordCreated:
    written: dict[str, Any] = {"account": ACCOUNT, "at": NOW_MS * 1000, "command_id": f"command {offset}"}
    refs = (("images", image),) if image else ()
    parent = ("contests", contest) if contest else None
    return RecordCreated(**written, resource=resource, key=key, record="{}", parent=parent, refs=refs)


def deleted(offset: int, resource: str, key: str) -> RecordDeleted:
    return RecordDeleted(
        account=ACCOUNT, at=NOW_MS * 1000, command_id=f"command {offset}", resource=resource, key=key
    )


class Contest:
    """A contest of many participants with one image."""

    def __init__(self, valkey: ValkeyClient, namespace: str) -> None:
        self.valkey = valkey
        self.partition = catalogue_topic(namespace).partition_of(ACCOUNT)
        self.views = CatalogueViews(valkey, namespace)
        self.generations = Generations(valkey, namespace, "catalogue", catalogue_topic(namespace))
        self.offset = 1
        self.entries: list[Entry] = [(LogRecord(0, NOW_MS, b""), LogCreated(LOG))]
        self.add(lambda offset: created(offset, "images", "image"))
        self.add_contest()

    def add(self, event: Any) -> None:
        made: CatalogueEvent = event(self.offset)
        self.entries.append((LogRecord(self.offset, NOW_MS, b""), made))
        self.offset += 1

    def add_contest(self) -> None:
        self.add(lambda offset: created(offset, "contests", "contest"))
        for number in range(PARTICIPANTS):
            key = f"participant {number}"
            self.add(
                lambda offset, key=key: created(offset, "participants", key, image="image", contest="contest")
            )

    async def fold(self, views: CatalogueViews, start: int, end: int | None = None) -> None:
        entries = self.entries[start:end]
        await views.apply(self.partition, Position(LOG, start), entries, start + len(entries))

    async def fold_once(self) -> int:
        """Fold the last event by a single call, as a process that ends after it; return the reply's kind."""
        last = self.offset - 1
        items = msgpack.packb([_item(*self.entries[-1])])
        reply = await call_function(
            self.valkey, "catalogue_apply", self.generations.base(self.partition), LOG, last, self.offset, items
        )
        return int(reply[0])

    async def stored(self, generation: int = 1) -> int:
        """Return the number of participants in Valkey, whether readers see them or not."""
        key = f"{self.generations.base(self.partition)}:g{generation}:records:{ACCOUNT}:participants"
        return int(await self.valkey.call("HLEN", key))

    async def outcome(self) -> OutcomeKind:
        [found] = await self.views.outcomes(self.partition, [f"command {self.offset - 1}"])
        assert found is not None
        return found.kind


@pytest.fixture
async def contest(valkey: ValkeyClient, namespace: str) -> Contest:
    contest = Contest(valkey, namespace)
    await contest.fold(contest.views, 0)
    await make_fresh(contest.views.fresh, contest.partition)
    return contest


async def delete_by_one_call(contest: Contest) -> None:
    contest.add(lambda offset: deleted(offset, "contests", "contest"))
    assert await contest.fold_once() == 1


async def test_readers_see_nothing_of_what_is_still_to_be_removed(contest: Contest) -> None:
    views = contest.views
    assert len((await views.contest_config(ACCOUNT, "contest")).participants) == PARTICIPANTS
    await delete_by_one_call(contest)
    assert await contest.stored() == PARTICIPANTS
    assert await views.get(ACCOUNT, "participants", "participant 7") is None
    assert await views.fresh.read("owner", contest.partition, "participants", "participant 7") is None
    assert await views.records(ACCOUNT, "participants", ["participant 7"]) == []
    for order in ("created", "updated", "running_number"):
        assert await views.page(ACCOUNT, "participants", parent="contest", order=order, limit=9) == []
    config = await views.contest_config(ACCOUNT, "contest")
    assert (config.contest, config.participants) == (None, ())
    assert await views.get(ACCOUNT, "images", "image") is not None


async def test_a_projector_that_ended_after_a_delete_is_followed_by_one_that_completes_it(
    contest: Contest,
) -> None:
    await delete_by_one_call(contest)
    contest.add(lambda offset: deleted(offset, "images", "image"))
    await contest.fold(contest.views, contest.offset - 1)
    assert await contest.stored() == 0
    assert await contest.outcome() is OutcomeKind.OK, "what is deleted still refers to the image"


async def test_what_is_removed_holds_nothing_of_its_successor(contest: Contest) -> None:
    contest.add(lambda offset: deleted(offset, "contests", "contest"))
    first = contest.offset
    contest.add_contest()
    await contest.fold(contest.views, first - 1)
    last = await contest.views.get(ACCOUNT, "participants", f"participant {PARTICIPANTS - 1}")
    assert last is not None
    assert (last.version, last.number) == (contest.offset - 1, PARTICIPANTS)
    assert await contest.stored() == PARTICIPANTS


async def test_one_call_removes_a_part_before_anything_else_is_folded(contest: Contest) -> None:
    await delete_by_one_call(contest)
    contest.add(lambda offset: created(offset, "images", "another"))
    counts = []
    while await contest.fold_once() != 1:
        counts.append(await contest.stored())
    assert len(counts) >= 4
    assert counts == sorted(counts, reverse=True)
    assert counts[0] >= PARTICIPANTS - 50
    assert counts[-1] == 0


async def test_a_generation_that_follows_completes_it_too_and_is_compared_then(
    contest: Contest, namespace: str
) -> None:
    number = 2
    assert await contest.generations.open(contest.partition, number)
    await contest.fold(CatalogueViews(contest.valkey, namespace, number), 0)
    at = Position(LOG, contest.offset)
    assert await contest.generations.touch(contest.partition, number, at) is State.FOLLOWING
    await delete_by_one_call(contest)
    names = [f"records:{ACCOUNT}:participants", f"records:{ACCOUNT}:images"]
    with pytest.raises(Moving):
        _ = [one async for one in contest.generations.differences(contest.partition, number, names)]
    await contest.views.apply(contest.partition, Position(LOG, contest.offset), [], contest.offset)
    assert [await contest.stored(each) for each in (1, number)] == [0, 0]
    assert [one async for one in contest.generations.differences(contest.partition, number, names)] == []
