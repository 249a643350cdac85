"""Valkey hashes of a contest other than its counts, with the field values that a fold expects."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from libs.audit.hash_fields import Hash, tally_of
from libs.audit.log_fold import LogFold, Past, Subject
from libs.audit.voter_hash_fields import VOTER_HASHES, of_vote
from libs.tally.events import VoteRestored
from libs.tally.time_conversion import timestamp
from libs.views.valkey.function_libraries import unpack
from libs.views.votes.counts_replies import source_figures, source_row
from libs.views.votes.serialization import SOURCES, digest, raw
from libs.views.votes.timeline import Moment, field_of, moment_of, past_of

VOID_MARK: Final = b"V"
"""Ends the name of a field that holds a vote's waiting void or restore."""


def _names(fold: LogFold, contest: str) -> dict[bytes, str]:
    return {str(index).encode(): name for name, index in fold.indexes.get(contest, {}).items()}


def _waiting(fold: LogFold, contest: str) -> dict[bytes, Any]:
    tally = tally_of(fold, contest)
    removals = {
        raw(voter) + digest(vote_id): [
            offset, int(removal.anonymous), raw(removal.content), SOURCES.index(removal.source), removal.removed_at
        ]
        for (voter, vote_id), (removal, offset) in tally.waiting.items()
    }  # fmt: skip
    return removals | {
        raw(voter) + digest(vote_id) + VOID_MARK: [
            [offset, int(isinstance(event, VoteRestored)), event.void.encode()] for event, offset in kept
        ]
        for (voter, vote_id), kept in tally.waiting_voids.items()
    }


def _reports(fold: LogFold, contest: str) -> dict[bytes, Any]:
    return {
        f"{source}\0{report_id}".encode(): [
            raw(report.content), report.offset, int(report.late), [mapped.encode() for mapped in report.held]
        ]
        for source, kept in tally_of(fold, contest).sources.items()
        for report_id, report in kept.reports.items()
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class _PastFields:
    """A field for each row and minute with a change, but for the last one, which is open."""

    past: Mapping[Subject, Mapping[int, Past]]

    def __iter__(self) -> Iterator[bytes]:
        for subject, minutes in self.past.items():
            yield from (field_of(Moment(subject, minute)) for minute in sorted(minutes)[:-1])

    def get(self, field: bytes) -> Any:
        subject, minute = moment_of(field)
        minutes = self.past.get(subject, {})
        return minutes.get(minute) if minute < max(minutes, default=0) else None


def _rows(fold: LogFold, contest: str) -> dict[bytes, list[int]]:
    past = fold.minutes.of(contest)
    rows = {
        name.encode(): [max(past.get(index, {}), default=-1)]
        for name, index in fold.indexes.get(contest, {}).items()
    }
    tally = fold.tally.contests.get(contest)
    return rows if tally is None or tally.last_offset < 0 else {b"": [tally.last_offset], **rows}


def _sources(fold: LogFold, contest: str) -> dict[bytes, Any]:
    past = fold.minutes.of(contest)
    return {name.encode(): _latest(past.get(name, {})) for name in tally_of(fold, contest).sources}


def _figures(fold: LogFold, contest: str) -> dict[bytes, Any]:
    past = fold.minutes.of(contest)
    return {
        f"{source}\0{mapped_id}".encode(): _latest(past.get((source, mapped_id), {}))
        for source, kept in tally_of(fold, contest).sources.items()
        for mapped_id in kept.figures
    }


def _latest(minutes: Mapping[int, Past]) -> Past | None:
    return minutes[max(minutes)] if minutes else None


def _releases(fold: LogFold, contest: str) -> dict[bytes, int]:
    return {
        f"{source}\0{number}".encode(): minute
        for source, minutes in fold.minutes.releases[contest].items()
        for number, minute in enumerate(minutes, 1)
    }


def _moment(field: bytes) -> str:
    subject, minute = moment_of(field)
    match subject:
        case str():
            of = f"source {subject}"
        case source, mapped_id:
            of = f"source {source}: id {mapped_id}"
        case _:
            of = f"participant number {subject}" if subject else "all"
    return f"{of} at the end of {timestamp((minute + 1) * 60_000_000)}"


def _of_source(what: str) -> Callable[[bytes], str]:
    """Return the label of fields of a source, or of a source and something of it."""
    return lambda field: what.format(*field.decode().split("\0"))


HASHES: Final = (
    Hash("names", _names, bytes.decode, lambda field: f"participant number {field.decode()}"),
    *VOTER_HASHES,
    Hash("waiting", _waiting, unpack, of_vote("change that waits for a reopening")),
    Hash("reports", _reports, unpack, _of_source("report {}/{}")),
    Hash("minutes", lambda fold, contest: _PastFields(fold.minutes.of(contest)), past_of, _moment),
    Hash(
        "counts",
        _rows,
        lambda value: unpack(value)[9:10],
        lambda field: f"participant {field.decode()}: minute of the last change" if field else "last change",
    ),
    Hash(
        "sources",
        _sources,
        lambda value: source_row(unpack(value)),
        _of_source("source {}: last change, number of ids, of those held, and of releases"),
    ),
    Hash(
        "figures",
        _figures,
        lambda value: source_figures(unpack(value)),
        _of_source("source {}: id {}: figures, and minute of the last change"),
    ),
    Hash("releases", _releases, int, _of_source("source {}: release {}")),
)
