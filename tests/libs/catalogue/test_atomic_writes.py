"""Several records written in one step: all of them or none."""

import asyncio
from functools import partial
from typing import Any

import pytest

from libs.catalogue.errors import UnknownReferences
from libs.catalogue.schemas.base import Document
from libs.contracts.catalogue_events import Stored
from libs.contracts.validation import ValidationFailed
from libs.tally.errors import NotFound
from tests.libs.catalogue.conftest import CRATES, TABLE, TAGS
from tests.support.builders.catalogue import Catalogue


def body(**members: Any) -> Any:
    return lambda before: (before or {}) | members


async def a_crate(catalogue: Catalogue, account: str) -> Stored:
    return await catalogue.create("crates", account, {"shelves": [{"id": "top"}, {"id": "bottom"}]})


async def test_what_has_a_key_is_changed_and_what_has_none_is_made(catalogue: Catalogue, account: str) -> None:
    crate = await a_crate(catalogue, account)
    old = await catalogue.create("shelf_tags", account, {"crate": {"kept": 1}}, crate.key)
    made, changed, last = await catalogue.record_service.write_together(
        TAGS, account, crate.key, [("", body(shelf="top")), (old.key, body(shelf="bottom")), ("", body())]
    )
    assert [made.number, changed.number, last.number] == [2, 1, 3]
    assert changed.document == {"crate": {"kept": 1}, "shelf": "bottom"}
    assert made.version == changed.version == last.version > old.version
    assert made.created < changed.updated < last.created
    for stored in (made, changed, last):
        assert await catalogue.record_service.get(TAGS, account, stored.key) == stored


async def test_where_one_is_refused_none_is_written(catalogue: Catalogue, account: str) -> None:
    crate, other = await a_crate(catalogue, account), await a_crate(catalogue, account)
    old = await catalogue.create("shelf_tags", account, {"shelf": "top"}, crate.key)
    others = await catalogue.create("shelf_tags", account, {}, other.key)
    before = await catalogue.record_service.get(TAGS, account, old.key)
    change = (old.key, body(shelf="bottom"))
    refused: list[tuple[list[Any], type[Exception], str]] = [
        ([change, ("", body(shelf=7))], ValidationFailed, "/1/shelf"),
        ([change, ("", body(shelf="nowhere"))], UnknownReferences, "/1/shelf"),
        ([change, ("", body(shelf="\0"))], ValidationFailed, "/1/shelf"),
        ([change, (others.key, body())], ValidationFailed, "/1"),
        ([change, change], ValidationFailed, "/1"),
        ([change, ("unknown", body())], NotFound, ""),
    ]
    for changes, error, pointer in refused:
        with pytest.raises(error) as caught:
            await catalogue.record_service.write_together(TAGS, account, crate.key, changes)
        if isinstance(caught.value, ValidationFailed):
            assert [each["pointer"] for each in caught.value.data["errors"]] == [pointer]
        assert await catalogue.record_service.get(TAGS, account, old.key) == before
    with pytest.raises(NotFound):
        await catalogue.record_service.write_together(TAGS, "somebody", crate.key, [("", body())])
    assert (await catalogue.create("shelf_tags", account, {}, crate.key)).number == 2


async def test_a_shelf_with_tags_written_together_with_others_is_still_in_use(
    catalogue: Catalogue, account: str
) -> None:
    crate = await a_crate(catalogue, account)
    await catalogue.record_service.write_together(
        TAGS, account, crate.key, [("", body(shelf="top")), ("", body())]
    )
    with pytest.raises(Exception, match="references it"):
        await catalogue.record_service.patch(CRATES, account, crate.key, {"shelves": [{"id": "bottom"}]})


async def test_writes_of_the_same_records_from_everywhere_lose_nothing(catalogue: Catalogue, account: str) -> None:
    crate = await a_crate(catalogue, account)
    tags = [await catalogue.create("shelf_tags", account, {}, crate.key) for _ in range(3)]
    engines = [catalogue.record_service, catalogue.another_record_service(TABLE)]

    def counted(name: str, before: Document | None) -> Document:
        return (before or {}) | {"crate": (before or {}).get("crate", {}) | {name: name}}

    await asyncio.gather(
        *(
            engines[number % 2].write_together(
                TAGS, account, crate.key, [(tag.key, partial(counted, str(number))) for tag in tags]
            )
            for number in range(8)
        ),
        *(catalogue.record_service.patch(TAGS, account, tag.key, {"crate": {"alone": "alone"}}) for tag in tags),
    )
    for tag in tags:
        read = await catalogue.record_service.get(TAGS, account, tag.key)
        assert read.document["crate"] == {name: name for name in ["alone", *map(str, range(8))]}
