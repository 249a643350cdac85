"""A write is refused before it would hold Valkey up: too many references or records, or unbounded checks."""

from typing import Any, cast

import pytest

from libs.catalogue.records import MAX_TOGETHER, RecordService
from libs.catalogue.references import MOST_REFERENCES, collected
from libs.catalogue.resource_definition import Reference, Resource, Table
from libs.contracts.validation import ValidationFailed
from tests.libs.catalogue.conftest import CRATES, LABELS, TABLE, TAGS, Label


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
