"""A log in memory, as certificates are computed from it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import orjson

from libs.certificates.builder import Batches, Sealing
from libs.contracts.catalogue_events import (
    CatalogueEvent,
    ContestClosing,
    RecordChanged,
    RecordCreated,
    catalogue_codec,
)
from libs.contracts.certificates import Certificate
from libs.contracts.codec import vote_codec
from libs.contracts.log_records import LogRecord
from libs.contracts.topics import Topic, votes_topic
from libs.tally.events import ContestClosed, Event, LogCreated, VoteCast

ACCOUNT = "account"
PARTITIONS = 2
END = 1_790_000_000_000_000
TV = "studio"
"""An external source of the contest, which reports in partition 0."""


class Recorded:
    """Votes by partition, of a contest that was closed with these."""

    def __init__(
        self, catalogue: Sequence[CatalogueEvent | bytes], votes: Sequence[Sequence[Event | bytes]]
    ) -> None:
        self._catalogue = [
            event if isinstance(event, bytes) else catalogue_codec.encode(event)
            for event in (LogCreated("records"), *catalogue)
        ]
        self._votes = [
            [vote_codec.encode(LogCreated(f"log {partition}"))]
            + [event if isinstance(event, bytes) else vote_codec.encode(event) for event in events]
            for partition, events in enumerate(votes)
        ]
        self.batch = 1_000

    def topic_from(self, first: int) -> Topic:
        assert first == 0
        return votes_topic("", len(self._votes))

    async def size(self) -> int:
        return sum(map(len, self._votes))

    def catalogue(self, account: str) -> Batches:
        return self._records(self._catalogue)

    def votes(self, partition: int) -> Batches:
        return self._records(self._votes[partition])

    async def _records(self, values: list[bytes]) -> Batches:
        records = [LogRecord(offset, 1_000 + offset, value) for offset, value in enumerate(values)]
        for at in range(0, len(records), self.batch):
            yield records[at : at + self.batch]

    async def sealing(self, seq: int = 1) -> Sealing:
        return await Sealing.open(self, ACCOUNT, "contest", seq)

    async def certify(self, seq: int = 1) -> Certificate:
        return await (await self.sealing(seq)).certify()


def recorded(*votes: Iterable[Event | bytes], catalogue: Sequence[CatalogueEvent | bytes] = ()) -> Recorded:
    """A log of one iterable a partition; unless `catalogue` differs, a contest of a and b that was closed."""
    given = [list(events) for events in votes]
    return Recorded(catalogue or [made(), closing()], given + [[MARK]] * (PARTITIONS - len(given)))


CONTEST: dict[str, Any] = {"account": ACCOUNT, "at": 1, "record": "{}", "contest": "contest"}
RECORD: dict[str, Any] = CONTEST | {"resource": "contests", "key": "contest"}


def made() -> RecordCreated:
    return RecordCreated(**RECORD, command_id="made")


def changed(command_id: str) -> RecordChanged:
    return RecordChanged(**RECORD, command_id=command_id, expected_version=1)


def closing(
    seq: int = 1, *, expected: int = 1, kind: str = "voteonly", approved: str = "ab", **sources: dict[str, Any]
) -> ContestClosing:
    registered = {name: REGISTERED | source for name, source in sources.items()}
    participants = [[key, "approved", key.upper()] for key in approved] + [["z", "rejected", "Zed"]]
    kept = {"seq": seq, "end": END, "title": "Final", "participants": participants, "sources": registered}
    record = orjson.dumps({"contest_type": kind, "closing": kept}).decode()
    command = CONTEST | {"command_id": f"close-{seq}-{expected}", "record": record}
    return ContestClosing(**command, expected_config=expected)


REGISTERED: dict[str, Any] = {
    "title": "Text messages",
    "is_in_total": True,
    "mode": "cumulative",
    "mapping": {"A": "a", "B": "b"},
    "retired": False,
    "registered": 7,
}
MARK = ContestClosed("contest", 1)


def receipted(cast: VoteCast) -> VoteCast:
    """With a receipt of its own."""
    return replace(cast, receipt=f"receipt-of-{cast.vote_id}")
