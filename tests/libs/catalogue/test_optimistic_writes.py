"""Lost races: the write is computed again from the winner's record, never from an older view."""

from typing import Any

import pytest

from libs.contracts.catalogue_events import OutcomeKind, RecordChanged, Stored
from libs.tally.errors import ViewsUnavailable
from tests.libs.catalogue.conftest import CRATES, TABLE
from tests.support.catalogue import Catalogue


async def test_an_attempt_is_repeated_from_the_write_that_it_lost_against(
    catalogue: Catalogue, account: str
) -> None:
    made = await catalogue.create("crates", account, {"title": "0"})
    seen: list[Stored] = []

    async def prepare(head: dict[str, Any]) -> tuple[None, RecordChanged]:
        found = await catalogue.record_service.get(CRATES, account, made.key)
        seen.append(found)
        if len(seen) < 4:
            await catalogue.another_record_service(TABLE).patch(
                CRATES, account, made.key, {"title": str(len(seen))}
            )
        version, record = found.version, '{"title": "last"}'
        command = RecordChanged(**head, resource="crates", key=made.key, record=record, expected_version=version)
        return None, command

    _, outcome = await catalogue.writer.write(account, ("crates", made.key), prepare)
    assert [each.document["title"] for each in seen] == ["0", "1", "2", "3"]
    assert outcome is not None
    assert outcome.kind is OutcomeKind.OK
    assert (await catalogue.record_service.get(CRATES, account, made.key)).document == {"title": "last"}


async def test_nothing_is_computed_from_a_view_that_is_not_fresh(catalogue: Catalogue, account: str) -> None:
    made = await catalogue.create("crates", account, {"title": "kept"})
    await catalogue.destroy_view(account)
    called: list[dict[str, Any]] = []
    for write in (
        catalogue.record_service.patch(CRATES, account, made.key, {"shelves": []}),
        catalogue.record_service.change(CRATES, account, made.key, called.append),
        catalogue.record_service.amend(CRATES, account, made.key, lambda before: before | {"title": "lost"}),
        catalogue.record_service.put(CRATES, account, made.key, {}, parent=""),
        catalogue.record_service.delete(CRATES, account, made.key),
    ):
        with pytest.raises(ViewsUnavailable):
            await write
    assert called == []
    await catalogue.create("crates", account, {})  # makes the projector fold the log again
    assert (await catalogue.record_service.get(CRATES, account, made.key)).document == {"title": "kept"}
