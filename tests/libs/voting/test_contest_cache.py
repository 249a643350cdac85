"""The contest cache: shared loads, bounded lifetime of errors, and eviction."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from libs.storage.object_store import StorageUnavailable
from libs.tally.contest import Contest
from libs.tally.errors import LedgerCatchingUp, NotFound, SecretErased, TallyError, ViewsUnavailable
from libs.tally.reservations import Stale
from libs.tally.vote_commands import RemoveVote
from libs.voting import contest_cache
from libs.voting.contest_cache import ContestCache
from libs.voting.protocol.shared_steps import refresh
from libs.voting.protocol_driver import Driver
from tests.support.builders.contests import a_contest
from tests.support.eventually import eventually


@dataclass
class Catalogue:
    """Stands for the views and the object store. A load takes until `gate` is open."""

    contest: Contest = field(default_factory=a_contest)
    version: int | None = 1
    is_away: bool = False
    storage_is_away: bool = False
    is_deleted: bool = False
    looks: int = 0
    loads: int = 0
    secrets: Counter[str] = field(default_factory=Counter)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.gate.set()
        self.cache = self.new_cache()

    async def load(self, account: str, key: str) -> Contest | None:
        if self.is_away:
            raise ViewsUnavailable("away")
        self.loads += 1
        found = None if self.is_deleted else replace(self.contest, key=key)
        await self.gate.wait()
        return found

    async def load_version(self, account: str, key: str) -> int | None:
        self.looks += 1
        await asyncio.sleep(0)
        if self.is_away:
            raise ViewsUnavailable("away")
        return self.version

    async def load_secret(self, key: str) -> bytes:
        self.secrets[key] += 1
        if self.storage_is_away:
            raise StorageUnavailable("away", retry_after_s=1)
        return f"secret of {key}".encode()

    def new_cache(self, most_contests: int = 99) -> ContestCache:
        return ContestCache(self.load, self.load_version, self.load_secret, most_contests)

    def change(self, **members: object) -> None:
        """The contest's record at the next version."""
        version = self.contest.version + 1
        self.contest = replace(self.contest, version=version, **members)  # type: ignore[arg-type]
        self.version = version


@dataclass
class Ledger:
    """Stands for the votes' views: remembers what was put in force."""

    raised: list[tuple[int, int, int | None]] = field(default_factory=list)
    is_read_too_early: bool = False

    async def put_in_force(self, partition: int, contest: Contest, incarnation: int) -> bool:
        self.raised.append((partition, contest.version, incarnation))
        return not self.is_read_too_early


@pytest.fixture
def catalogue(monkeypatch: pytest.MonkeyPatch) -> Catalogue:
    """Whose cached contests are old at once."""
    monkeypatch.setattr(contest_cache, "RECENT_S", 0.0)
    return Catalogue()


SECRET = b"secret of contest"


async def secret(cache: ContestCache, key: str = "contest") -> bytes:
    return await cache.secret("account", key)


async def refreshed(cache: ContestCache, before: Contest, ledger: Ledger, in_force: int | None) -> Contest:
    """After an answer under incarnation 7."""
    unused: Any = None
    driver = Driver(unused, cast(Any, ledger), unused, cache, unused, unused)
    done: asyncio.Future[Contest | TallyError] = asyncio.get_running_loop().create_future()
    steps, of = refresh(before, Stale(in_force, 7)), RemoveVote(before.key, "", "")
    driver.start([driver.new_run(steps, "account", of, 0, done.set_result)])
    loaded = await done
    if isinstance(loaded, TallyError):
        raise loaded
    return loaded


async def test_a_destroyed_secret_is_forgotten_when_the_record_says_so(catalogue: Catalogue) -> None:
    assert await secret(catalogue.cache) == SECRET
    catalogue.change(is_erased=True)
    with pytest.raises(SecretErased):
        await secret(catalogue.cache)
    assert SECRET not in [entry.known and entry.known.secret for entry in catalogue.cache._entries.values()]


async def test_all_who_ask_at_once_share_one_look(catalogue: Catalogue) -> None:
    await secret(catalogue.cache)
    before = catalogue.looks
    assert await asyncio.gather(*(secret(catalogue.cache) for _ in range(50))) == [SECRET] * 50
    assert catalogue.looks == before + 1


async def test_a_view_that_is_away_stops_nobody_but_voters_of_a_deleted_contest_are_named_no_more(
    catalogue: Catalogue,
) -> None:
    await secret(catalogue.cache)
    catalogue.is_away = True
    assert await secret(catalogue.cache) == SECRET
    catalogue.is_away, catalogue.is_deleted, catalogue.version = False, True, None
    with pytest.raises(NotFound):
        await secret(catalogue.cache)


async def test_stale_answers_share_the_load_under_way_and_one_behind_it(catalogue: Catalogue) -> None:
    """Answers that name the version in force need no load that begins after them; those that name none do."""
    before = await catalogue.cache.get("account", "contest")
    catalogue.gate.clear()
    catalogue.change()
    tasks = []
    for number in range(200):
        tasks.append(asyncio.create_task(refreshed(catalogue.cache, before, Ledger(), None if number % 2 else 2)))
        await asyncio.sleep(0)  # each in a tick of its own
    catalogue.gate.set()
    assert {contest.version for contest in await asyncio.gather(*tasks)} == {2}
    assert catalogue.loads == 1 + 2


async def test_what_was_loaded_already_satisfies_a_stale_answer(catalogue: Catalogue) -> None:
    before, ledger = await catalogue.cache.get("account", "contest"), Ledger()
    catalogue.change()
    await refreshed(catalogue.cache, before, ledger, 2)
    loads = catalogue.loads
    assert (await refreshed(catalogue.cache, before, ledger, 2)).version == 2
    assert (catalogue.loads, ledger.raised) == (loads, [])


async def test_a_secret_that_went_out_of_memory_is_no_destroyed_one(catalogue: Catalogue) -> None:
    """Whatever is loaded, and forgotten, between the steps of those who ask."""
    cache = catalogue.new_cache(most_contests=2)
    keys = [f"c{number}" for number in range(7)]

    async def ask(key: str, turns: int) -> None:
        for turn in range(20):
            assert await secret(cache, key) == f"secret of {key}".encode()
            for _ in range((turn * turns) % 4):
                await asyncio.sleep(0)

    await asyncio.gather(*(ask(key, turns) for turns, key in enumerate(keys * 3)))
    assert len(cache._entries) == 2


async def test_what_is_in_use_is_remembered(catalogue: Catalogue) -> None:
    cache = catalogue.new_cache(most_contests=3)
    for number in range(9):
        await secret(cache, "in use")
        await secret(cache, f"c{number}")
    assert catalogue.secrets["in use"] == 1


async def test_contests_that_do_not_exist_take_no_room(catalogue: Catalogue) -> None:
    cache = catalogue.new_cache(most_contests=2)
    await secret(cache)
    catalogue.is_deleted = True
    for number in range(9):
        with pytest.raises(NotFound):
            await secret(cache, f"c{number}")
    assert await secret(cache) == SECRET
    assert catalogue.secrets["contest"] == 1


async def test_a_secret_that_cannot_be_read_now_is_asked_for_again(catalogue: Catalogue) -> None:
    catalogue.storage_is_away = True
    with pytest.raises(StorageUnavailable):
        await secret(catalogue.cache)
    catalogue.storage_is_away = False
    assert await secret(catalogue.cache) == SECRET


async def test_a_contest_whose_catalogue_is_behind_is_refused_at_once(catalogue: Catalogue) -> None:
    """Instead of being asked for again and again by each of its votes."""
    before = await catalogue.cache.get("account", "contest")
    with pytest.raises(LedgerCatchingUp):
        await refreshed(catalogue.cache, before, Ledger(is_read_too_early=True), None)


async def test_those_who_wait_for_a_version_to_be_folded_ask_the_ledger_only_then(catalogue: Catalogue) -> None:
    before, ledger = await catalogue.cache.get("account", "contest"), Ledger()
    waiting = [asyncio.create_task(refreshed(catalogue.cache, before, ledger, 2)) for _ in range(50)]
    await eventually(lambda: catalogue.loads >= 4)
    assert not any(task.done() for task in waiting)
    assert catalogue.loads < 25
    catalogue.change()
    assert {contest.version for contest in await asyncio.gather(*waiting)} == {2}
    assert ledger.raised == []
