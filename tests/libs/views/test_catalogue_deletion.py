"""A record is deleted with all that belongs to it: for readers at once, in Valkey by short calls."""

from __future__ import annotations

from typing import Any

import pytest

from libs.contracts.catalogue_events import CatalogueEvent, OutcomeKind, RecordCreated, RecordDeleted
from libs.contracts.log_records import LogRecord, Position
from libs.contracts.topics import catalogue_topic
from libs.tally.errors import ViewsUnavailable
from libs.tally.events import LogCreated
from libs.views.catalogue.catalogue_views import CatalogueViews, Entry
from libs.views.generations.generations import Generations, Moving, State
from libs.views.valkey.client import ValkeyClient
from tests.support.freshness import make_fresh
from tests.support.intercepted_valkey import InterceptedValkey, plain_name

ACCOUNT, LOG, NOW_MS = "account", "the-log", 1_790_000_000_000
TIMESLOTS = 180
"""More than three calls remove."""


def created(offset: int, resource: str, key: str, *, image: str = "", convention: str = "") -> RecordCreated:
    written: dict[str, Any] = {"account": ACCOUNT, "at": NOW_MS * 1000, "command_id": f"command {offset}"}
    refs = (("images", image),) if image else ()
    parent = ("conventions", convention) if convention else None
    return RecordCreated(**written, resource=resource, key=key, record="{}", parent=parent, refs=refs)


def deleted(offset: int, resource: str, key: str) -> RecordDeleted:
    return RecordDeleted(
        account=ACCOUNT, at=NOW_MS * 1000, command_id=f"command {offset}", resource=resource, key=key
    )


class Ending(InterceptedValkey):
    """The client of a process that ends after so many more writes."""

    writes = 1

    async def call(self, *command: Any) -> Any:
        if plain_name(command[1]) in ("catalogue_apply", "catalogue_fold"):
            self.writes -= 1
            if self.writes < 0:
                raise ViewsUnavailable("ended")
        return await super().call(*command)


class Convention:
    """A convention of many timeslots with one image."""

    def __init__(self, valkey: ValkeyClient, namespace: str) -> None:
        self.valkey = valkey
        self.partition = catalogue_topic(namespace).partition_of(ACCOUNT)
        self.views = CatalogueViews(valkey, namespace)
        self.generations = Generations(valkey, namespace, "catalogue", catalogue_topic(namespace))
        self.offset = 1
        self.entries: list[Entry] = [(LogRecord(0, NOW_MS, b""), LogCreated(LOG))]
        self.add(lambda offset: created(offset, "images", "image"))
        self.add_convention()

    def add(self, event: Any) -> None:
        made: CatalogueEvent = event(self.offset)
        self.entries.append((LogRecord(self.offset, NOW_MS, b""), made))
        self.offset += 1

    def add_convention(self) -> None:
        self.add(lambda offset: created(offset, "conventions", "convention"))
        for number in range(TIMESLOTS):
            key = f"timeslot {number}"
            self.add(
                lambda offset, key=key: created(offset, "timeslots", key, image="image", convention="convention")
            )

    async def fold(self, views: CatalogueViews, start: int, end: int | None = None) -> None:
        entries = self.entries[start:end]
        await views.apply(self.partition, Position(LOG, start), entries, start + len(entries))

    async def fold_once(self) -> bool:
        """Fold the last event by a process that ends after its first write; return whether that was all."""
        ending = CatalogueViews(Ending(self.valkey), self.views.generations.namespace)
        last = Position(LOG, self.offset - 1)
        try:
            await ending.apply(self.partition, last, self.entries[-1:], self.offset)
        except ViewsUnavailable:
            return False
        return True

    async def stored(self, generation: int = 1) -> int:
        """Return the number of timeslots in Valkey, whether readers see them or not."""
        key = f"{self.generations.base(self.partition)}:g{generation}:records:{ACCOUNT}:timeslots"
        return int(await self.valkey.call("HLEN", key))

    async def outcome(self) -> OutcomeKind:
        [found] = await self.views.outcomes(self.partition, [f"command {self.offset - 1}"])
        assert found is not None
        return found.kind


@pytest.fixture
async def convention(valkey: ValkeyClient, namespace: str) -> Convention:
    convention = Convention(valkey, namespace)
    await convention.fold(convention.views, 0)
    await make_fresh(convention.views.fresh, convention.partition)
    return convention


async def delete_by_one_call(convention: Convention) -> None:
    convention.add(lambda offset: deleted(offset, "conventions", "convention"))
    assert not await convention.fold_once()
    assert await convention.views.position(convention.partition) == Position(LOG, convention.offset)


async def test_readers_see_nothing_of_what_is_still_to_be_removed(convention: Convention) -> None:
    views = convention.views
    assert await views.get(ACCOUNT, "timeslots", "timeslot 7") is not None
    await delete_by_one_call(convention)
    assert await convention.stored() == TIMESLOTS
    assert await views.get(ACCOUNT, "timeslots", "timeslot 7") is None
    assert await views.fresh.read("owner", convention.partition, "timeslots", "timeslot 7") is None
    assert await views.records(ACCOUNT, "timeslots", ["timeslot 7"]) == []
    for order in ("created", "updated", "running_number"):
        assert await views.page(ACCOUNT, "timeslots", parent="convention", order=order, limit=9) == []
    assert await views.get(ACCOUNT, "images", "image") is not None


async def test_a_projector_that_ended_after_a_delete_is_followed_by_one_that_completes_it(
    convention: Convention,
) -> None:
    await delete_by_one_call(convention)
    convention.add(lambda offset: deleted(offset, "images", "image"))
    await convention.fold(convention.views, convention.offset - 1)
    assert await convention.stored() == 0
    assert await convention.outcome() is OutcomeKind.OK, "what is deleted still refers to the image"


async def test_what_is_removed_holds_nothing_of_its_successor(convention: Convention) -> None:
    convention.add(lambda offset: deleted(offset, "conventions", "convention"))
    first = convention.offset
    convention.add_convention()
    await convention.fold(convention.views, first - 1)
    last = await convention.views.get(ACCOUNT, "timeslots", f"timeslot {TIMESLOTS - 1}")
    assert last is not None
    assert (last.version, last.number) == (convention.offset - 1, TIMESLOTS)
    assert await convention.stored() == TIMESLOTS


async def test_one_call_removes_a_part_before_anything_else_is_folded(convention: Convention) -> None:
    await delete_by_one_call(convention)
    convention.add(lambda offset: created(offset, "images", "another"))
    counts = []
    while not await convention.fold_once():
        counts.append(await convention.stored())
    assert len(counts) >= 4
    assert counts == sorted(counts, reverse=True)
    assert counts[0] >= TIMESLOTS - 50
    assert counts[-1] == 0


async def test_a_generation_that_follows_completes_it_too_and_is_compared_then(
    convention: Convention, namespace: str
) -> None:
    number = 2
    assert await convention.generations.open(convention.partition, number)
    await convention.fold(CatalogueViews(convention.valkey, namespace, number), 0)
    at = Position(LOG, convention.offset)
    assert await convention.generations.touch(convention.partition, number, at) is State.FOLLOWING
    convention.add(lambda offset: deleted(offset, "conventions", "convention"))
    ending = Ending(convention.valkey)
    ending.writes = 6  # all of the generation that follows, and the first of the live one
    with pytest.raises(ViewsUnavailable):
        await CatalogueViews(ending, namespace).apply(
            convention.partition, Position(LOG, convention.offset - 1), convention.entries[-1:], convention.offset
        )
    assert [await convention.stored(each) for each in (1, number)] == [TIMESLOTS, 0]
    names = [f"records:{ACCOUNT}:timeslots", f"records:{ACCOUNT}:images"]
    with pytest.raises(Moving):
        _ = [one async for one in convention.generations.differences(convention.partition, number, names)]
    convention.add(lambda offset: created(offset, "images", "another"))
    await convention.fold(convention.views, convention.offset - 1)
    assert [await convention.stored(each) for each in (1, number)] == [0, 0]
    assert [one async for one in convention.generations.differences(convention.partition, number, names)] == []
