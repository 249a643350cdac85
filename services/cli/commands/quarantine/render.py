"""Renders quarantined records as text and tables."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from libs.contracts.dataclass_json import HIDDEN
from libs.monitoring.lag import ProjectionName
from libs.monitoring.quarantine import name_of
from libs.replay.job import Rebuilt
from services.cli.commands.quarantine.records import DropInfo, Quarantined
from services.cli.commands.quarantine.retry import Trial
from services.cli.commands.replay import rebuilt_text
from services.cli.render import Block, Rows, printable

A_LINE: Final = 16
NOTHING: Final = "No record is in quarantine."


@dataclass(frozen=True, slots=True)
class Records:
    """Quarantined records; `hidden` counts dropped ones that are not listed."""

    records: list[Quarantined]
    hidden: int


@dataclass(frozen=True, slots=True)
class Header:
    name: str
    value: bytes


@dataclass(frozen=True, slots=True)
class WholeRecord:
    """A record with its key, headers and value."""

    topic: ProjectionName
    partition: int
    offset: int
    appended: str
    size: int
    reason: str
    dropped: DropInfo | None
    key: bytes | None
    headers: list[Header]
    value: bytes

    @classmethod
    def of(cls, one: Quarantined) -> "WholeRecord":
        headers = [Header(name, value) for name, value in one.record.headers]
        return cls(
            one.topic, one.partition, one.offset, one.appended, one.size, one.reason, one.dropped,
            one.record.key, headers, one.value(),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Dropped:
    """A record that was, or would be, dropped."""

    record: Quarantined
    executed: bool


@dataclass(frozen=True, slots=True)
class Retried:
    """Results of decoding the records again, the partitions to rebuild, and the replays.

    Partitions with `forbidding` records are not rebuilt: that would also process these, which were dropped.
    """

    records: list[Trial]
    partitions: dict[ProjectionName, set[int]]
    forbidding: list[Quarantined]
    rebuilt: list[Rebuilt]
    executed: bool = field(metadata=HIDDEN)


def list_text(result: Records) -> Iterator[Block]:
    yield Rows([_row(one) for one in result.records])
    if not result.records:
        yield NOTHING if not result.hidden else "No record in quarantine is open."
    if result.hidden:
        yield f"{result.hidden:,} dropped, not shown; --all shows them."


def drop_text(result: Dropped) -> Iterator[Block]:
    """Yield the decision, or the record that it would drop."""
    one = result.record
    yield f"{one.where()}, appended {one.appended}, {one.size:,} bytes: {printable(one.reason)}"
    yield "Run again with --execute to drop it." if one.drop is None else f"Dropped at {one.drop.dropped_at}."


def retry_text(result: Retried) -> Iterator[Block]:
    """Yield whether this version can process each record, the partitions to rebuild, and the results."""
    if not result.records:
        yield NOTHING
    yield Rows(
        [
            _row(trial.record) | {"size": "", "now": printable(trial.reason_now or "can be processed")}
            for trial in result.records
        ]
    )
    for one in result.forbidding:
        name = name_of(one.record.topic, one.partition, one.offset)
        yield (
            f"{one.topic} {one.partition} is not rebuilt: that would also process {one.where()}, "
            "which was dropped. "
            f"To allow this, delete {name} from the object store."
        )
    partitions = ", ".join(f"{topic} {one}" for topic, its in result.partitions.items() for one in sorted(its))
    if partitions and not result.executed:
        yield f"To be rebuilt: {partitions}. Run again with --execute to do it."
    if result.records and not partitions:
        yield "There is nothing to rebuild."
    for done in result.rebuilt:
        yield from rebuilt_text(done)


def record_text(one: WholeRecord) -> Iterator[Block]:
    """Yield a record's metadata, an empty line, and its value: as text if printable, otherwise in hexadecimal."""
    dropped = None if one.dropped is None else f"{one.dropped.at} {one.dropped.reason or ''}".rstrip()
    facts = {
        "appended": one.appended,
        "reason": printable(one.reason),
        "key": None if one.key is None else _text(one.key),
        **{f"header {printable(header.name)}": _text(header.value) for header in one.headers},
        "size": f"{one.size:,} bytes",
        "dropped": dropped,
    }
    yield f"{one.topic} {one.partition} {one.offset}"
    yield from (f"{name}: {value}" for name, value in facts.items() if value is not None)
    yield ""
    yield from text_lines(one.value) or hex_lines(one.value)


def text_lines(value: bytes) -> Sequence[str]:
    """Return the lines of the text; empty for other bytes, and for text with control characters."""
    try:
        lines = value.decode().split("\n")
    except UnicodeDecodeError:
        return []
    return lines if all(line.isprintable() for line in lines) else []


def hex_lines(value: bytes) -> Iterator[str]:
    """Yield a hex dump: offset, 16 bytes, and their printable ASCII characters."""
    for at in range(0, len(value), A_LINE):
        piece = value[at : at + A_LINE]
        readable = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in piece)
        yield f"{at:08x}  {piece.hex(' '):<{3 * A_LINE - 1}}  {readable}"


def _row(one: Quarantined) -> dict[str, object]:
    return {
        "topic": one.topic,
        "partition": one.partition,
        "offset": str(one.offset),
        "appended": one.appended,
        "size": one.size,
        "reason": printable(one.reason),
        "dropped": "" if one.drop is None else one.drop.reason or one.drop.dropped_at,
    }


def _text(value: bytes) -> str:
    return " ".join(text_lines(value)) or value.hex(" ")
