"""A record is deleted with all that belongs to it: for readers and later events at once, in Valkey by short calls
between the events of others."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest

from libs.contracts.catalogue_events import (
    CatalogueEvent,
    OutcomeKind,
    RecordChanged,
    RecordCreated,
    RecordDeleted,
)
from libs.contracts.log_records import Behind, LogRecord, Position
from libs.contracts.topics import catalogue_topic
from libs.tally.errors import ViewsUnavailable
from libs.tally.events import LogCreated
from libs.views.catalogue.catalogue_fold import PAGE
from libs.views.catalogue.catalogue_views import CatalogueViews, Entry
from libs.views.generations.generations import Generations, Moving, State, Swap
from libs.views.valkey.client import ValkeyClient
from tests.libs.views.generation_folds import Keys
from tests.support.clients.intercepted_valkey import InterceptedValkey, plain_name
from tests.support.servers.freshness import make_fresh

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


class Reading(InterceptedValkey):
    """A client that counts the reads of timeslots."""

    timeslots = 0

    async def call(self, *command: Any) -> Any:
        self.timeslots += command[0] == "HGET" and command[1].endswith(f":records:{ACCOUNT}:timeslots")
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

    def _append(self, kind: type[CatalogueEvent], *, account: str = ACCOUNT, **members: Any) -> None:
        command: dict[str, Any] = {"account": account, "at": NOW_MS * 1000, "command_id": f"command {self.offset}"}
        self.entries.append((LogRecord(self.offset, NOW_MS, b""), kind(**command, **members)))

    def create(self, resource: str, key: str, **members: Any) -> None:
        self._append(RecordCreated, resource=resource, key=key, record="{}", **members)

    def change(self, resource: str, key: str, **members: Any) -> None:
        self._append(RecordChanged, resource=resource, key=key, record="{}", **members)

    def delete(self, resource: str, key: str) -> None:
        self._append(RecordDeleted, resource=resource, key=key)

    def create_convention(self) -> None:
        self.create("conventions", "convention")
        of = {"parent": ("conventions", "convention"), "refs": (("images", "image"),)}
        for number in range(TIMESLOTS):
            self.create("timeslots", f"timeslot {number}", **of)

    async def fold(self, views: CatalogueViews, start: int) -> None:
        """To the end, as a projector does: on from where the view is."""
        stored: Position | None = Position(LOG, start)
        while stored is not None:
            try:
                await views.apply(self.partition, stored, self.entries[stored.offset :], self.offset)
                return
            except Behind as behind:
                stored = behind.stored

    async def stored(self, generation: int = 1) -> int:
        """Return the number of timeslots in Valkey, whether readers see them or not."""
        key = f"{self.generations.base(self.partition)}:g{generation}:records:{ACCOUNT}:timeslots"
        return int(await self.valkey.call("HLEN", key))

    async def clean_up(self) -> None:
        while await self.views.clean_up(self.partition):
            pass

    async def deleted(self) -> None:
        """Fold the deletion of the convention, of which no timeslot is removed yet."""
        self.delete("conventions", "convention")
        await self.fold(self.views, self.offset - 1)
        assert await self.stored() == TIMESLOTS

    async def outcome(self, before: int = 1) -> OutcomeKind:
        [found] = await self.views.outcomes(self.partition, [f"command {self.offset - before}"])
        assert found is not None
        return found.kind


@pytest.fixture
async def convention(valkey: ValkeyClient, namespace: str) -> Convention:
    convention = Convention(valkey, namespace)
    await convention.fold(convention.views, 0)
    await make_fresh(convention.views.fresh, convention.partition)
    return convention


async def test_readers_see_nothing_of_what_is_still_to_be_removed(convention: Convention) -> None:
    views = convention.views
    assert await views.get(ACCOUNT, "timeslots", "timeslot 7") is not None
    await convention.deleted()
    assert await views.get(ACCOUNT, "timeslots", "timeslot 7") is None
    assert await views.fresh.read("owner", convention.partition, "timeslots", "timeslot 7") is None
    assert await views.records(ACCOUNT, "timeslots", ["timeslot 7"]) == []
    for order in ("created", "updated", "running_number"):
        assert await views.page(ACCOUNT, "timeslots", parent="convention", order=order, limit=9) == []
    assert await views.get(ACCOUNT, "images", "image") is not None
    assert await convention.outcome() is OutcomeKind.OK
    await convention.clean_up()
    assert await convention.stored() == 0


@pytest.mark.parametrize("is_removed", [False, True])
async def test_what_is_deleted_refers_to_nothing_and_cannot_be_changed(
    convention: Convention, is_removed: bool
) -> None:
    await convention.deleted()
    if is_removed:
        await convention.clean_up()
    convention.change("timeslots", "timeslot 7", expected_version=9)
    convention.delete("timeslots", "timeslot 8")
    convention.delete("images", "image")
    await convention.fold(convention.views, convention.offset - 3)
    assert [await convention.outcome(before) for before in (3, 2, 1)] == [
        OutcomeKind.MISSING,
        OutcomeKind.MISSING,
        OutcomeKind.OK,
    ]
    assert (await convention.stored() == 0) is is_removed, "none of them waits for the removal"


async def test_a_living_record_is_found_among_many_references_of_deleted_ones(convention: Convention) -> None:
    convention.create("shops", "a shop", refs=(("images", "image"),))
    convention.create("vote_sources", "a source", refs=(("images", "image"),))
    await convention.fold(convention.views, convention.offset - 2)
    await convention.deleted()
    convention.delete("images", "image")
    await convention.fold(convention.views, convention.offset - 1)
    [outcome] = await convention.views.outcomes(convention.partition, [f"command {convention.offset - 1}"])
    assert outcome is not None
    users = (("shops", "a shop"), ("vote_sources", "a source"))
    assert (outcome.kind, outcome.refs) == (OutcomeKind.IN_USE, users)


async def test_the_deletion_of_what_only_deleted_records_refer_to_reads_none_of_them(
    convention: Convention, namespace: str
) -> None:
    """An image with thousands of such references would stop the events of all accounts for seconds."""
    await convention.deleted()
    convention.delete("images", "image")
    reading = Reading(convention.valkey)
    await convention.fold(CatalogueViews(reading, namespace), convention.offset - 1)
    assert await convention.outcome() is OutcomeKind.OK
    assert reading.timeslots <= PAGE, "those that this batch of events removes"


async def test_others_events_are_folded_before_all_is_removed(convention: Convention) -> None:
    await convention.deleted()
    for number in range(3):
        convention.create("images", f"image {number}", account=("another", "third", ACCOUNT)[number])
        await convention.fold(convention.views, convention.offset - 1)
        assert await convention.outcome() is OutcomeKind.OK
        assert 0 < await convention.stored() < TIMESLOTS
    assert await convention.views.position(convention.partition) == Position(LOG, convention.offset)


async def test_another_account_that_takes_a_key_of_what_is_to_be_removed_owns_it(convention: Convention) -> None:
    await convention.deleted()
    convention.create("timeslots", "timeslot 7", account="another")
    await convention.fold(convention.views, convention.offset - 1)
    await convention.clean_up()
    owner = await convention.views.fresh.read("owner", convention.partition, "timeslots", "timeslot 7")
    assert owner == b"another"


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


async def test_one_call_removes_a_part_and_a_crash_between_two_loses_nothing(convention: Convention) -> None:
    await convention.deleted()
    counts = [TIMESLOTS]
    while counts[-1]:
        ending = CatalogueViews(Ending(convention.valkey), convention.views.generations.namespace)
        with suppress(ViewsUnavailable):
            while await ending.clean_up(convention.partition):
                pass
        counts.append(await convention.stored())
    assert len(counts) >= 4
    assert all(0 <= before - after <= 50 for before, after in pairwise(counts))
    assert await convention.views.position(convention.partition) == Position(LOG, convention.offset)


async def test_a_generation_that_follows_removes_it_too_and_is_compared_then(
    convention: Convention, namespace: str
) -> None:
    generations, partition = convention.generations, convention.partition
    assert await generations.open(partition, 2)
    await convention.fold(CatalogueViews(convention.valkey, namespace, 2), 0)
    assert await generations.touch(partition, 2, Position(LOG, convention.offset)) is State.FOLLOWING
    await convention.deleted()
    assert await convention.stored(2) == TIMESLOTS
    names = [f"records:{ACCOUNT}:timeslots", f"records:{ACCOUNT}:images"]
    with pytest.raises(Moving):
        _ = [one async for one in generations.differences(partition, 2, names)]
    await convention.clean_up()
    assert [await convention.stored(each) for each in (1, 2)] == [0, 0]
    assert [one async for one in generations.differences(partition, 2, names)] == []


async def test_no_generation_is_swapped_in_while_the_live_one_is_unfinished(
    convention: Convention, namespace: str
) -> None:
    """In the middle of a restoration the other one would show the contest as deleted again."""
    generations, partition = convention.generations, convention.partition
    assert await generations.open(partition, 2)
    await convention.fold(CatalogueViews(convention.valkey, namespace, 2), 0)
    assert await generations.touch(partition, 2, Position(LOG, convention.offset)) is State.FOLLOWING
    await convention.deleted()
    assert await generations.swap(partition, 2) == Swap(False, "moving")
    await convention.clean_up()
    assert await generations.swap(partition, 2) == Swap(True)


async def test_a_replay_leaves_nothing_to_be_removed(convention: Convention, namespace: str) -> None:
    convention.delete("conventions", "convention")
    assert await convention.generations.open(convention.partition, 2)
    await convention.fold(CatalogueViews(convention.valkey, namespace, 2), 0)
    assert await convention.stored(2) == 0
