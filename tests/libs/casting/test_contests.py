"""What a process knows of a contest, and for how long it names voters by it."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest

from libs.casting import contests
from libs.casting.contests import Contests
from libs.tally.contest import Contest
from libs.tally.errors import SecretErased, ViewsUnavailable
from tests.support.builders import a_contest


@dataclass
class Catalogue:
    """Stands for the views and the object store."""

    contest: Contest = field(default_factory=a_contest)
    version: int | None = 1
    is_away: bool = False
    looks: int = 0

    async def load(self, account: str, key: str) -> Contest:
        if self.is_away:
            raise ViewsUnavailable("away")
        return self.contest

    async def load_version(self, account: str, key: str) -> int | None:
        self.looks += 1
        await asyncio.sleep(0)
        if self.is_away:
            raise ViewsUnavailable("away")
        return self.version

    async def load_secret(self, key: str) -> bytes:
        return b"secret"


@pytest.fixture
def catalogue() -> Catalogue:
    return Catalogue()


@pytest.fixture
def known(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> Contests:
    """Whose knowledge is old at once."""
    monkeypatch.setattr(contests, "RECENT_S", 0.0)
    return Contests(catalogue.load, catalogue.load_version, catalogue.load_secret)


async def secret(known: Contests) -> bytes:
    return await known.secret("account", "contest")


async def test_a_destroyed_secret_is_forgotten_when_the_record_says_so(
    catalogue: Catalogue, known: Contests
) -> None:
    assert await secret(known) == b"secret"
    catalogue.contest, catalogue.version = replace(catalogue.contest, version=2, is_erased=True), 2
    with pytest.raises(SecretErased):
        await secret(known)
    assert b"secret" not in known._secrets.values()


async def test_all_who_ask_at_once_share_one_look(catalogue: Catalogue, known: Contests) -> None:
    await secret(known)
    before = catalogue.looks
    assert await asyncio.gather(*(secret(known) for _ in range(50))) == [b"secret"] * 50
    assert catalogue.looks == before + 1


async def test_a_view_that_is_away_or_was_emptied_stops_nobody(catalogue: Catalogue, known: Contests) -> None:
    await secret(known)
    catalogue.version = None
    assert await secret(known) == b"secret"
    catalogue.is_away = True
    assert await secret(known) == b"secret"


async def test_what_is_known_for_long_is_looked_at_no_more_often_than_need_be(
    catalogue: Catalogue, known: Contests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contests, "RECENT_S", 60.0)
    for _ in range(9):
        await secret(known)
    assert catalogue.looks == 0
