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
from tests.libs.views.generation_folds import Keys
from tests.support.freshness import make_fresh
from tests.support.intercepted_valkey import InterceptedValkey, plain_name

ACCOUNT, LOG, NOW_MS = "account", "the-log", 1_790_000_000_000
TIMESLOTS = 180
"""More than three calls remove."""


class Ending(InterceptedValkey):
    """The client of a process that ends after so many more writes."""

    writes = 1

    async def call(self, *command: Any) -> Any:
        if plain_name(command[1]) in ("catalogue_apply", "catalogue_fold"):
            self.writes -= 1
            if self.writes < 0:
                raise ViewsUnavailable("ended")
        return await super().call(*command)


class Losing(InterceptedValkey):
    """The client of a process whose server loses its second and third write before the fourth."""

    def __init__(self, valkey: ValkeyClient, keys: Keys) -> None:
        super().__init__(valkey)
        self.keys = keys
        self.writes = 0

    async def call(self, *command: Any) -> Any:
        if plain_name(command[1]) == "catalogue_apply":
            self.writes += 1
            if self.writes == 2:
                self.kept = await self.keys.copy()
            elif self.writes == 4:
                await self.keys.restore(self.kept)
        return await super().call(*command)


class Convention:
    """A convention of many timeslots with one image."""

    def __init__(self, valkey: ValkeyClient, namespace: str) -> None:
        self.valkey = valkey
        self.partition = catalogue_topic(namespace).partition_of(ACCOUNT)
        self.views = CatalogueViews(valkey, namespace)
        self.generations = Generations(valkey, namespace, "catalogue", catalogue_topic(namespace))
        self.keys = Keys(valkey, self.generations.base(self.partition))
        self.entries: list[Entry] = [(LogRecord(0, NOW_MS, b""), LogCreated(LOG))]
        self.create("images", "image")
        self.create_convention()

    @property
    def offset(self) -> int:
        """The end of the log."""
        return len(self.entries)

    def _append(self, kind: type[CatalogueEvent], **members: Any) -> None:
        command: dict[str, Any] = {"account": ACCOUNT, "at": NOW_MS * 1000, "command_id": f"command {self.offset}"}
        self.entries.append((LogRecord(self.offset, NOW_MS, b""), kind(**command, **members)))

    def create(self, resource: str, key: str, **members: Any) -> None:
        self._append(RecordCreated, resource=resource, key=key, record="{}", **members)

    def delete(self, resource: str, key: str) -> None:
        self._append(RecordDeleted, resource=resource, key=key)

    def create_convention(self) -> None:
        self.create("conventions", "convention")
        of = {"parent": ("conventions", "convention"), "refs": (("images", "image"),)}
        for number in range(TIMESLOTS):
            self.create("timeslots", f"timeslot {number}", **of)

    async def fold(self, views: CatalogueViews, start: int) -> None:
        """To the end."""
        await views.apply(self.partition, Position(LOG, start), self.entries[start:], self.offset)

    async def fold_once(self) -> bool:
        """Fold the last event by a process that ends after its first write; return whether that was all."""
        ending = CatalogueViews(Ending(self.valkey), self.views.generations.namespace)
        try:
            await self.fold(ending, self.offset - 1)
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
    convention.delete("conventions", "convention")
    assert not await convention.fold_once()
    assert await convention.views.position(convention.partition) == Position(LOG, convention.offset - 1)


async def test_readers_see_nothing_of_what_is_still_to_be_removed_and_the_next_projector_removes_it(
    convention: Convention,
) -> None:
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
    await convention.fold(views, convention.offset - 1)
    assert await convention.stored() == 0
    assert await convention.outcome() is OutcomeKind.OK, "folded again, it is judged again"
    convention.delete("images", "image")
    await convention.fold(views, convention.offset - 1)
    assert await convention.outcome() is OutcomeKind.OK, "what is deleted still refers to the image"


async def test_what_is_removed_holds_nothing_of_its_successor(convention: Convention) -> None:
    convention.delete("conventions", "convention")
    first = convention.offset
    convention.create_convention()
    await convention.fold(convention.views, first - 1)
    last = await convention.views.get(ACCOUNT, "timeslots", f"timeslot {TIMESLOTS - 1}")
    assert last is not None
    assert (last.version, last.number) == (convention.offset - 1, TIMESLOTS)
    assert await convention.stored() == TIMESLOTS


async def test_a_loss_of_some_of_its_calls_is_noticed(convention: Convention, namespace: str) -> None:
    """Their position is that of the calls before them: by it alone a child would outlive its parent."""
    convention.delete("conventions", "convention")
    first = convention.offset
    convention.create_convention()
    losing = Losing(convention.valkey, convention.keys)
    await convention.fold(CatalogueViews(losing, namespace), first - 1)
    assert losing.writes > 4
    last = await convention.views.get(ACCOUNT, "timeslots", f"timeslot {TIMESLOTS - 1}")
    assert last is not None
    assert (last.number, await convention.stored()) == (TIMESLOTS, TIMESLOTS)


async def test_one_call_removes_a_part_before_anything_else_is_folded(convention: Convention) -> None:
    await delete_by_one_call(convention)
    counts = []
    while not await convention.fold_once():
        counts.append(await convention.stored())
    assert await convention.views.position(convention.partition) == Position(LOG, convention.offset)
    assert len(counts) >= 4
    assert counts == sorted(counts, reverse=True)
    assert counts[0] >= TIMESLOTS - 50
    assert counts[-1] == 0


async def test_a_generation_that_follows_completes_it_too_and_is_compared_then(
    convention: Convention, namespace: str
) -> None:
    generations, partition = convention.generations, convention.partition
    assert await generations.open(partition, 2)
    await convention.fold(CatalogueViews(convention.valkey, namespace, 2), 0)
    assert await generations.touch(partition, 2, Position(LOG, convention.offset)) is State.FOLLOWING
    convention.delete("conventions", "convention")
    ending = Ending(convention.valkey)
    ending.writes = 7  # all of the generation that follows, and the first of the live one
    with pytest.raises(ViewsUnavailable):
        await convention.fold(CatalogueViews(ending, namespace), convention.offset - 1)
    assert [await convention.stored(each) for each in (1, 2)] == [TIMESLOTS, 0]
    names = [f"records:{ACCOUNT}:timeslots", f"records:{ACCOUNT}:images"]
    with pytest.raises(Moving):
        _ = [one async for one in generations.differences(partition, 2, names)]
    await convention.fold(convention.views, convention.offset - 1)
    assert [await convention.stored(each) for each in (1, 2)] == [0, 0]
    assert [one async for one in generations.differences(partition, 2, names)] == []
