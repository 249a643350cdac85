"""Exports a partition's ledger as facts with names, to compare them with another fold (`tally verify`).

A fact is a tuple: its kind, the voter, participant or source that it is about, and further names. A vote is named
by the digest of its id. `votes/16_export.lua` alone knows how facts are stored.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from libs.contracts.log_records import Position
from libs.tally.voter_ledger import VoteStatus
from libs.views.valkey.function_libraries import unpack
from libs.views.votes.counts_replies import folded_report, source_figures, source_row
from libs.views.votes.serialization import SOURCES, text
from libs.views.votes.timeline import past_row
from libs.views.votes.vote_reads import VoteReads

Fact = tuple[Any, ...]
Facts = Iterator[tuple[Fact, Any]]
LARGE: Final = {"voters": 16, "shares": 2, "details": 16, "reports": 16}
PAGE: Final = 100
"""Approximate number of entries read by one call, and of those that may be large: some 0.3 ms of Valkey's time."""


class StoredVote(NamedTuple):
    """A vote id in the ledger. `participant` and `votes` are empty if it has other choices, or none.

    Limits of -1 are unlimited. `epoch` is that of `FoldedVote`, `before` the digest of the voter's vote before it.
    """

    status: VoteStatus
    source: str
    content: bytes
    accepted_at: int
    offset: int
    participant: str
    votes: int
    remaining_participant: int
    remaining_contest: int
    next_free_vote_at: int
    epoch: int
    has_choices: bool
    before: bytes


class FactsPage(NamedTuple):
    """Facts at `position`; one may be on two pages."""

    position: Position
    facts: Mapping[Fact, Any]


async def export(views: VoteReads, partition: int, part: str, contest: str) -> list[FactsPage]:
    """Read all pages of a part of a contest's views (`PARTS`). Raises `ViewsUnavailable`.

    A page is one atomic call. The pages contain all facts that the part had at the first one, and has at the last.
    """
    return [page async for page in export_pages(views, partition, part, contest)]


async def export_pages(views: VoteReads, partition: int, part: str, contest: str) -> AsyncIterator[FactsPage]:
    """Yield the pages of `export`."""
    cursor = None
    while cursor != b"0":
        reply = await views.read(
            "votes_export", partition, part, contest, cursor or b"0", LARGE.get(part, PAGE), views.named
        )
        log, offset, cursor, rows = unpack(reply)
        facts = dict(fact for row in rows for fact in PARTS[part](row))
        yield FactsPage(Position(log.decode(), offset), facts)


def _voter(row: Sequence[Any]) -> Facts:
    name, own, sums, slots, votes = row
    voter = text(name)
    if own:
        yield ("voter", voter), (own[0] == 1, *own[1:])
    for participant, source, epoch, *used in zip(*(sums[at::6] for at in range(6)), strict=True):
        yield ("used", voter, participant.decode(), SOURCES[source], epoch), tuple(used)
    for participant, source, vote in zip(*(slots[at::3] for at in range(3)), strict=True):
        yield ("slot", voter, participant.decode(), SOURCES[source]), vote
    for vote, status, source, content, at, offset, participant, *rest in votes:
        head = VoteStatus(status), SOURCES[source], content, at, offset, participant.decode()
        yield ("vote", voter, vote), StoredVote(*head, *rest)


def _choices(row: Sequence[Any]) -> Facts:
    voter, vote, choices, rating = row
    named = tuple(zip(map(bytes.decode, choices[::2]), choices[1::2], strict=True)) if choices else ()
    parts = rating[1] if rating else ()
    subs = tuple(zip(map(bytes.decode, parts[::2]), parts[1::2], strict=True))
    yield ("choices", text(voter), vote), (named, (rating[0], subs) if rating else None)


def _voids(row: Sequence[Any]) -> Facts:
    voter, vote, operations = row
    yield ("voids", text(voter), vote), tuple(map(bytes.decode, operations))


def _waiting(row: Sequence[Any]) -> Facts:
    voter, vote, change = row
    if isinstance(change[0], list):
        yield ("voids waiting", text(voter), vote), tuple((at, back, void.decode()) for at, back, void in change)
    else:
        offset, anonymous, content, source, removed_at = change
        yield (
            ("removal waiting", text(voter), vote),
            (offset, anonymous == 1, content, SOURCES[source], removed_at),
        )


def _row(row: Sequence[Any]) -> Facts:
    yield ("row", row[0].decode()), row[1]


def _of_source(kind: str, decode: Callable[[Any], Any]) -> Callable[[Sequence[Any]], Facts]:
    """Decode what is stored by a source, or by a source and something of it."""

    def decoded(row: Sequence[Any]) -> Facts:
        yield (kind, *row[0].decode().split("\0", 1)), decode(row[1])

    return decoded


def _minute(row: Sequence[Any]) -> Facts:
    kind, name, minute, stored = row
    subject = (kind.decode(), *name.decode().split("\0", 1))
    yield ("minute", subject, minute), MINUTES[subject[0]](stored)


MINUTES: Final[Mapping[str, Callable[[Any], Any]]] = {"r": past_row, "s": source_row, "f": source_figures}
"""Decoders of a timeline's values, of participants, sources, and their ids."""

PARTS: Final[Mapping[str, Callable[[Sequence[Any]], Facts]]] = {
    "voters": _voter,
    "shares": _voter,
    "spill": _voter,
    "details": _choices,
    "voids": _voids,
    "waiting": _waiting,
    "counts": _row,
    "sources": _of_source("source", source_row),
    "figures": _of_source("figures", source_figures),
    "reports": _of_source("report", folded_report),
    "releases": _of_source("release", int),
    "minutes": _minute,
}
