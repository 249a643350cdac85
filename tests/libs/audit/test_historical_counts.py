"""The fold up to an instant equals that of all records until then; a contest between its end and its last mark."""

from itertools import accumulate

import pytest

from libs.audit.recount import EVER, fold_until, is_being_closed
from libs.contracts.codec import vote_codec
from libs.contracts.log_records import LogRecord
from libs.deployment.deployment import Deployment
from libs.kafka.reader import LogReader
from libs.tally.events import ContestClosed, ContestReopened, Event, Fence, LogCreated
from libs.tally.fold import ContestTally
from tests.libs.views.random_logs import a_log, folded
from tests.support.builders.contests import NOW, a_cast, a_contest, a_removal, a_report
from tests.support.builders.folded_log import FoldedLog, folded_log

PALETTE: list[Event | bytes] = [
    *(a_cast(voter=voter, contest="one") for voter in ("ann", "bob", "cid")),
    a_cast(contest="another"),
    a_removal(voter="ann", contest="one"),
    a_report("report", contest="one"),
    ContestClosed("one", 1),
    ContestReopened("one", 1),
    Fence(1),
    b"poison",
]


async def records_of(log: FoldedLog, reader: LogReader) -> list[list[LogRecord]]:
    topic, found = f"{log.stack.namespace}.votes", [list[LogRecord]() for _ in range(log.stack.partitions)]
    extents = await reader.extents(topic, range(log.stack.partitions))
    async for partition, records in reader.records(topic, extents):
        found[partition] += records
    return found


@pytest.mark.parametrize("seed", [1, 2])
async def test_at_every_records_instant_the_fold_is_that_of_what_was_appended_until_then(
    kafka: str, valkey_address: str, namespace: str, seed: int
) -> None:
    async with folded_log(kafka, valkey_address, namespace) as log, Deployment(log.stack) as deployment:
        for number, record in enumerate(a_log(PALETTE, 24, seed)[1:]):
            await log.append([record.value], partition=number % 2)
        whole = await records_of(log, deployment.reader)
        instants = {record.timestamp_ms for records in whole for record in records}
        assert len(instants) > 8
        for until_ms in sorted(instants | {min(instants) - 1, max(instants) + 99, EVER}):
            folds, log_ids, last_ms = await fold_until(deployment, "one", until_ms)
            for fold, records in zip(folds, whole, strict=True):
                times = accumulate((record.timestamp_ms for record in records), max)
                prefix = [record for record, time_ms in zip(records, times, strict=True) if time_ms <= until_ms]
                expected = folded(prefix).contests.get("one", ContestTally())
                assert fold.tally.contests.get("one", ContestTally()) == expected
                assert fold.offset == len(prefix)
                assert set(fold.tally.contests) <= {"one"}
                first = vote_codec.decode(records[0].value)
                assert isinstance(first, LogCreated)
                assert log_ids[fold.partition] == first.log_id
            assert last_ms == max((at for at in instants if at <= until_ms), default=0)


@pytest.mark.parametrize(
    ("end", "closed", "marks", "being_closed"),
    [
        (None, 0, [0, 0], False),
        (NOW + 1, 0, [0, 0], False),
        (NOW, 0, [0, 0], True),
        (NOW, 2, [0, 2], True),
        (NOW, 2, [2, 2], False),
    ],
)
def test_between_its_end_and_its_last_mark_a_contest_is_being_closed(
    end: int | None, closed: int, marks: list[int], being_closed: bool
) -> None:
    tallies = [ContestTally(closed=mark) for mark in marks]
    assert is_being_closed(a_contest(end=end, closed=closed), tallies, NOW) is being_closed
