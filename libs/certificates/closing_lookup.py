"""Finds the closing of a contest in the catalogue's log."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import orjson

from libs.catalogue.contests.closing_record import Closing, closing_of, votes_from
from libs.catalogue.errors import NotClosed
from libs.contracts.catalogue_events import ContestClosing, catalogue_codec, contests_of
from libs.contracts.certificates import Decision
from libs.contracts.codec import Undecodable
from libs.contracts.log_records import LogRecord
from libs.tally.events import LogCreated


@dataclass(frozen=True, slots=True)
class Decided:
    """A closing and its position in the log."""

    closing: Closing
    contest_type: str
    votes_from: int
    at: Decision


async def find_decision(
    records: AsyncIterator[Sequence[LogRecord]], account: str, contest: str, seq: int
) -> Decided:
    """Return closing number `seq` from the `records` of the account's partition.

    Applies the rule of the catalogue's fold: a ContestClosing made from another than the contest's latest
    configuration was rejected. Raises `NotClosed`.
    """
    log_id, version = "", -1
    async for batch in records:
        events = catalogue_codec.decode_many([record.value for record in batch])
        for record, event in zip(batch, events, strict=True):
            if isinstance(event, LogCreated) and record.offset == 0:
                log_id = event.log_id
            if isinstance(event, Undecodable) or contest not in contests_of(event):
                continue
            if isinstance(event, ContestClosing) and (event.account, event.expected_config) == (account, version):
                document = orjson.loads(event.record)
                closing = closing_of(document)
                if closing is not None and closing.seq == seq:
                    where = Decision(account=account, log_id=log_id, offset=record.offset)
                    return Decided(closing, document.get("contest_type", "voteonly"), votes_from(document), where)
            version = record.offset
    raise NotClosed(f"The log holds no closing number {seq} of contest {contest}.")
