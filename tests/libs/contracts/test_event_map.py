"""The event map in `libs/contracts/README.md`: one row for each event type, with files that handle it."""

import re
from pathlib import Path
from typing import NamedTuple, get_args

import pytest

from libs.contracts.catalogue_events import CatalogueEvent
from libs.contracts.codec import UPCASTS
from libs.contracts.purchase_events import PurchasesEvent
from libs.tally.events import Event

ROOT = Path(__file__).parents[3]
TOPICS: dict[str, tuple[type, ...]] = {
    "votes": (*get_args(Event), *UPCASTS),
    "catalogue": get_args(CatalogueEvent),
    "purchases": get_args(PurchasesEvent),
}
QUOTED = re.compile(r"`([^`]+)`")


class Row(NamedTuple):
    event: str
    topic: str
    files: tuple[str, ...]


def rows() -> list[Row]:
    text = (ROOT / "libs" / "contracts" / "README.md").read_text()
    table = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| `")]
    return [
        Row(event.strip(" `"), topic.strip(), tuple(name for name in QUOTED.findall(by + reads) if "/" in name))
        for event, topic, by, reads in table
    ]


def test_every_event_type_has_exactly_one_row() -> None:
    topics: dict[str, list[str]] = {}
    for topic, events in TOPICS.items():
        for event in events:
            topics.setdefault(event.__name__, []).append(topic)
    expected = [(name, found[0] if len(found) == 1 else "all") for name, found in topics.items()]
    assert sorted((row.event, row.topic) for row in rows()) == sorted(expected)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.event)
def test_the_files_of_a_row_exist_and_name_the_event(row: Row) -> None:
    assert row.files
    for file in row.files:
        assert re.search(rf"\b{row.event}\b", (ROOT / file).read_text()), file
