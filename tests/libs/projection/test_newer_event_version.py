"""A fold stops at an event of a newer version, and goes on in a process that supports the type."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from libs.contracts.codec import Undecodable, UnknownEvent, vote_codec
from libs.contracts.log_records import LogRecord, Position
from libs.contracts.topics import catalogue_topic, purchases_topic
from libs.projection.projection_interface import NewerEvent, Projection
from libs.projection.record_projections import CatalogueProjection, PurchasesProjection, no_votes
from tests.libs.projection.in_memory_projection import Steering, folding
from tests.support.eventually import eventually

NEWER = b'{"type":"VoteCast.2","weight":3}'
CREATED = b'{"type":"LogCreated","id":"log"}'


@pytest.mark.parametrize("value", [b"not JSON", b"{}", b'{"type":7}', b'{"type":"cast"}', b'{"type":"VoteCast"}'])
def test_a_corrupt_record_is_no_event_of_a_newer_version(value: bytes) -> None:
    assert type(vote_codec.decode(value)) is Undecodable


def test_an_event_of_an_unknown_type_or_version_is_one() -> None:
    for name in ("VoteCast.2", "VoteMoved"):
        decoded = vote_codec.decode(f'{{"type":"{name}"}}'.encode())
        assert isinstance(decoded, UnknownEvent)
        assert decoded.type == name


class Stored:
    """Views that keep what is folded into them."""

    fresh = live = None

    def __init__(self) -> None:
        self.offsets: list[int] = []

    async def position(self, partition: int) -> Position:
        return Position("log", len(self.offsets))

    async def apply(
        self, partition: int, start: Position, entries: Sequence[tuple[LogRecord, object]], end: int, *_: object
    ) -> bool:
        assert start.offset == len(self.offsets)
        self.offsets += [record.offset for record, _ in entries]
        return False

    async def clean_up(self, _: int) -> bool:
        return False


def catalogue(views: Any) -> Projection:
    return CatalogueProjection(catalogue_topic("t"), views, no_votes)


def purchases(views: Any) -> Projection:
    return PurchasesProjection(purchases_topic("t", 1), views)


@pytest.mark.parametrize("make", [catalogue, purchases])
async def test_records_and_purchases_before_it_are_folded(make: Callable[[Any], Projection]) -> None:
    views = Stored()
    values = CREATED, b"poison", CREATED, NEWER, CREATED
    records = [LogRecord(at, 1, value) for at, value in enumerate(values)]
    with pytest.raises(NewerEvent) as stopped:
        await make(views).fold(0, Position("log", 0), records)
    assert views.offsets == [0, 1, 2]
    assert stopped.value.offset == 3


async def test_a_worker_waits_at_it_says_why_and_asks_for_an_upgrade(caplog: pytest.LogCaptureFixture) -> None:
    views, source = Stored(), Steering()
    async with folding(catalogue(views), source) as worker:
        worker.offer([LogRecord(at, 1, value) for at, value in enumerate((CREATED, CREATED, NEWER, CREATED))])
        await eventually(lambda: worker.stalled_since is not None)
        assert source.is_paused
        assert worker.position == Position("log", 2)
    assert views.offsets == [0, 1]
    [line] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "unknown type VoteCast.2 at offset 2: a newer version wrote it. Upgrade this process" in line
