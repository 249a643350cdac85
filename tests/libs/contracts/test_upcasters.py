"""Old versions decode as current events: the recorded logs in `logs` give the same fold."""

from pathlib import Path
from typing import get_args, get_type_hints

import orjson
import pytest

from libs.contracts.codec import UPCASTS, vote_codec
from libs.contracts.log_records import LogRecord, Position
from libs.contracts.topics import votes_topic
from libs.projection.votes_projection import VotesProjection
from libs.tally.events import Fence
from libs.tally.fold import PartitionTally
from libs.views.valkey.function_loading import load_functions, open_valkey
from libs.views.votes.address_counters import AddressCounters
from tests.simulation.comparison import described, described_view
from tests.support.builders.contests import a_cast
from tests.support.clients.vote_views import VoteViews

LOGS = Path(__file__).parent / "logs"
VERSIONS = sorted(path.name for path in LOGS.iterdir())
TODAY = VERSIONS[-1]


def read(version: str) -> list[LogRecord]:
    lines = (LOGS / version).read_bytes().splitlines()
    return [LogRecord(offset, 1_000 + offset, line) for offset, line in enumerate(lines)]


def fold(version: str) -> PartitionTally:
    tally, records = PartitionTally(), read(version)
    for record, event in zip(records, vote_codec.decode_many([each.value for each in records]), strict=True):
        tally.evolve(event, record.offset, record.timestamp_ms)  # type: ignore[arg-type]
    return tally


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_log_of_any_version_gives_the_view_of_todays(
    valkey_address: str, namespace: str, version: str
) -> None:
    expected = fold(TODAY)
    assert (expected.fence, expected.fenced, expected.duplicates, expected.overruled) == (12, 3, 1, 1)
    assert described(fold(version)) == described(expected)
    valkey = open_valkey(valkey_address)
    try:
        await load_functions(valkey)
        views = VoteViews(valkey, namespace, 1)
        projection = VotesProjection(votes_topic(namespace, 1), views, AddressCounters(valkey, namespace))
        await projection.fold(0, Position("log", 0), read(version))
        assert await described_view(views, 0, {"contest"}) == described(expected)
        assert (await views.state(0)).quarantined == 0
    finally:
        await valkey.close()


def test_every_old_version_is_in_a_log_and_none_in_todays() -> None:
    old = {get_args(get_type_hints(version)["type"])[0] for version in UPCASTS}
    names = {log: {orjson.loads(record.value)["type"] for record in read(log)} for log in VERSIONS}
    assert old <= set().union(*names.values())
    assert not old & names[TODAY]


def test_a_batch_is_lifted_where_it_has_to_be_and_in_its_order() -> None:
    old = b'{"type":"Fence","incarnation":3}', b'{"type":"Fence","incarnation":9,"after":5,"run":"r"}'
    written = [*old, vote_codec.encode(a_cast()), vote_codec.encode(Fence(5, 3))]
    assert list(vote_codec.decode_many(written)) == [Fence(3), Fence(9, 5, "r"), a_cast(), Fence(5, 3)]
    assert [vote_codec.decode(each) for each in old] == [Fence(3), Fence(9, 5, "r")]
