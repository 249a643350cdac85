"""Fills a votes log with votes of the shape that ingestion appends."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from uuid_utils import uuid7

from libs.contracts.codec import vote_codec
from libs.contracts.pseudonyms import pseudonym, receipt
from libs.contracts.topics import Topic
from libs.kafka.settings import KafkaSettings
from libs.kafka.writer import LogWriter
from libs.tally.events import Fence, VoteCast

INCARNATION = 1
CHUNK = 3_000
"""Appends in flight."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Distribution of votes: each voter votes `each` times, for different participants of one contest.

    With `renews`, each vote of a voter is for the same participant in an allowance period of its own.
    """

    each: int = 3
    participants: int = 100
    contests: int = 1
    renews: bool = False


def contest_name(number: int) -> str:
    return f"contest{number}"


async def produce(
    settings: KafkaSettings, topic: Topic, votes: int, spread: Spread | None = None, after: int = 0
) -> None:
    """Append a fence to each partition, then the votes; those that come `after` so many need no fence."""
    writer = LogWriter(settings)
    await writer.start()
    for partition in range(0 if after else topic.partitions):
        await writer.append(topic.name, partition, vote_codec.encode(Fence(INCARNATION)), deadline_s=30)
    casts = islice(all_casts(spread or Spread()), after, after + votes)
    while chunk := list(islice(casts, CHUNK)):
        await asyncio.gather(
            *(
                writer.append(
                    topic.name,
                    topic.partition_of(cast.voter),
                    vote_codec.encode(cast),
                    cast.voter.encode(),
                    deadline_s=60,
                )
                for cast in chunk
            )
        )
    await writer.stop()


def all_casts(spread: Spread) -> Iterator[VoteCast]:
    """Yield votes without end, all of a voter together."""
    number = 0
    while True:
        voter, contest = pseudonym(b"secret", "voter", str(number)), contest_name(number % spread.contests)
        for vote in range(spread.each):
            participant = number * 7 + (0 if spread.renews else vote)
            yield vote_cast(contest, voter, f"{participant % spread.participants:024x}", vote * spread.renews)
        number += 1


def vote_cast(contest: str, voter: str, participant: str, period: int = 0) -> VoteCast:
    vote_id = str(uuid7())
    return VoteCast(
        contest=contest,
        voter=voter,
        anonymous=False,
        vote_id=vote_id,
        content="AAAAAAAAAAA",
        source="c-free",
        choices=((participant, 1),),
        accepted_at=time.time_ns() // 1000,
        incarnation=INCARNATION,
        config=1,
        max_participant=1,
        max_contest=-1,
        epoch=period,
        remaining_participant=0,
        remaining_contest=None,
        next_free_vote_at=None,
        receipt=receipt(b"key", contest, voter, vote_id),
        platform="ios",
    )
