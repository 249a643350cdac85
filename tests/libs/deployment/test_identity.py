"""A log belongs to one object store and one number of partitions from its first record on."""

import asyncio
from pathlib import Path

import pytest

from libs.contracts.topics import catalogue_topic
from libs.deployment.identity import WrongStore
from libs.kafka.errors import WrongTopic
from libs.kafka.reader import LogReader
from libs.storage.object_store import STORE_ID, find_store_id, open_store
from tests.libs.deployment.conftest import Place


async def test_the_catalogue_begins_with_the_stores_id_and_the_partitions(place: Place) -> None:
    await place.create()
    await place.create()
    async with LogReader(place.settings) as reader:
        first = (await reader.first_records(catalogue_topic(place.namespace).name, [0]))[0]
    known = await find_store_id(place.store)
    assert (first.store_id, first.partitions) == (known, 2)
    await Place(place.settings, f"{place.namespace}b", 2, place.store, place.valkey).create()
    assert await find_store_id(place.store) == known, "a store serves several namespaces"


async def test_of_two_machines_with_stores_of_their_own_the_first_in_the_log_wins(
    place: Place, tmp_path: Path
) -> None:
    other = place.beside(store=open_store(str(tmp_path / "another machine's")))
    results = await asyncio.gather(place.create(), other.create(), return_exceptions=True)
    [refused] = [result for result in results if result is not None]
    assert isinstance(refused, WrongStore)
    for setting in ("TALLY_STORAGE_URL", "TALLY_KAFKA_BOOTSTRAP_SERVERS", place.namespace, "restore"):
        assert setting in refused.message
    loser = place if results[0] is refused else other
    with pytest.raises(WrongStore, match=r"has (another|no) id"):
        await loser.check()


async def test_an_emptied_store_is_refused_and_gets_no_new_id(place: Place) -> None:
    await place.create()
    await place.store.delete(STORE_ID)
    for step in (place.check, place.create):
        with pytest.raises(WrongStore, match="has lost its contents"):
            await step()
    assert await find_store_id(place.store) is None


async def test_partitions_that_were_added_are_refused_though_settings_agree(place: Place) -> None:
    await place.create()
    await place.add_partitions(3)
    with pytest.raises(WrongTopic, match="was begun with 2 partitions"):
        await place.beside(partitions=3).create()
