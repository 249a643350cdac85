"""A write is refused before it would hold Valkey up: too many references or records, or unbounded checks. Many of
one account wait for each other."""

import asyncio
from itertools import count
from typing import Any, cast

import pytest

from libs.catalogue.commands import MOST_UNDECIDED
from libs.catalogue.records import MAX_TOGETHER, RecordService
from libs.catalogue.references import MOST_REFERENCES, collected
from libs.catalogue.resource_definition import Reference, Resource, Table
from libs.contracts.catalogue_events import OutcomeKind, RecordCreated, RecordsWritten, Write
from libs.contracts.validation import ValidationFailed
from tests.libs.catalogue.conftest import CRATES, LABELS, TABLE, TAGS, Label
from tests.support.builders.catalogue import Catalogue


def test_a_record_offers_so_many_parts_at_most() -> None:
    shelves = [{"id": str(number)} for number in range(MOST_REFERENCES + 1)]
    collected(TABLE, CRATES, {"shelves": shelves[1:]}, "", "crate")
    with pytest.raises(ValidationFailed):
        collected(TABLE, CRATES, {"shelves": shelves}, "", "crate")


async def test_so_many_records_are_written_together_at_most() -> None:
    service = RecordService(TABLE, cast(Any, None), cast(Any, None))
    with pytest.raises(ValidationFailed):
        await service.write_together(TAGS, "account", "crate", [("", lambda _: {})] * (MAX_TOGETHER + 1))


@pytest.mark.parametrize(
    "reference",
    [Reference("/tag", "shelf_tags"), Reference("/shelf", "crates/shelves")],
    ids=["a child of another", "a part of another"],
)
def test_no_resource_refers_to_what_a_delete_removes_along(reference: Reference) -> None:
    stranger = Resource("strangers", "stranger", Label, {}, references=(reference,))
    with pytest.raises(ValueError, match="no reference to"):
        Table(CRATES, LABELS, TAGS, stranger)


@pytest.mark.parametrize("together", [1, MAX_TOGETHER], ids=["one record each", "many records each"])
async def test_an_account_that_writes_much_delays_others_by_a_few_records_only(
    catalogue: Catalogue, account: str, together: int
) -> None:
    """All commands of a partition are folded in their order."""
    partition_of = catalogue.topic.partition_of
    other = next(name for n in count() if partition_of(name := f"{account}-{n}") == partition_of(account))

    def command(account: str, number: int, records: int = 1) -> RecordCreated | RecordsWritten:
        keys = [f"{account}-{number}-{each}" for each in range(records)]
        head: dict[str, Any] = {"account": account, "at": number, "command_id": keys[0]}
        if records == 1:
            return RecordCreated(**head, resource="crates", key=keys[0], record="{}")
        writes = tuple(Write(resource="crates", key=key, record="{}", expected_version=None) for key in keys)
        return RecordsWritten(**head, writes=writes)

    record = catalogue.writer.record
    much = [record(command(account, number, together)) for number in range(3 * MOST_UNDECIDED // together)]
    *others, outcome = await asyncio.gather(*much, record(command(other, 0)))
    assert {each.kind for each in (*others, outcome)} == {OutcomeKind.OK}
    before = sum(each.offset < outcome.offset for each in others)
    assert before * together == MOST_UNDECIDED
