"""Functions of two versions on one server: each process calls its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from libs.views.valkey.client import Valkey, ValkeyClient
from libs.views.valkey.connection import NotExecuted
from libs.views.valkey.function_libraries import layouts, libraries, version
from libs.views.valkey.function_loading import load_functions, loaded_libraries
from tests.libs.views.partition import Partition
from tests.support.clients.vote_views import VoteViews
from tests.support.servers.loaded_valkey import loaded_valkey, once_executed
from tests.support.servers.own_valkey import own_valkey
from tests.support.servers.versions import functions_of_another_version


@pytest.fixture
async def valkey(tmp_path: Path) -> AsyncIterator[ValkeyClient]:
    async with own_valkey(tmp_path) as server, loaded_valkey(server.address) as client:
        yield client


async def test_versions_are_loaded_side_by_side_and_work_on_the_same_views(valkey: Valkey, tmp_path: Path) -> None:
    """Each has names of its own for all functions."""
    partition = Partition(VoteViews(valkey, "t", 1))
    await partition.fence()
    own = {library.loaded_name for library in libraries()}
    with functions_of_another_version(tmp_path / "other"):
        assert own.isdisjoint(library.loaded_name for library in libraries())
        other = version()
        await load_functions(valkey)
        state = await VoteViews(valkey, "t", 1).state(0)
        assert state.open
    assert set(await loaded_libraries(valkey)) == {version(), other}
    assert await VoteViews(valkey, "t", 1).confirm(0, state.incarnation)


async def test_a_process_whose_functions_were_deleted_loads_them_again(valkey: Valkey) -> None:
    for library in libraries():
        await valkey.call("FUNCTION", "DELETE", library.loaded_name)
    views = VoteViews(valkey, "t", 1)
    with pytest.raises(NotExecuted):
        await views.state(0)
    await once_executed(lambda: views.state(0))
    assert set(await loaded_libraries(valkey)) == {version()}


def test_layouts_name_the_number_of_each_library(tmp_path: Path) -> None:
    catalogue, purchases, votes = layouts().split(".")
    with functions_of_another_version(tmp_path, [("local SCHEMA = 12", "local SCHEMA = 13")]):
        assert layouts() == f"{catalogue}.{purchases}.{int(votes) + 1}"
