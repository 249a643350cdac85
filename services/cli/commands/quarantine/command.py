"""`tally quarantine`: lists, shows, drops and retries quarantined records."""

import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Annotated, Any, Final

import typer

from libs.contracts.catalogue_events import catalogue_codec
from libs.contracts.codec import Codec, Undecodable, vote_codec
from libs.contracts.ndjson_codec import HIDDEN
from libs.contracts.purchase_events import purchases_codec
from libs.deployment.deployment import Deployment
from libs.monitoring.lag import ProjectionName
from libs.monitoring.quarantine import Drop, keep, name_of
from libs.replay.job import Job, Rebuilt
from libs.replay.targets import Rebuildable, ReplayTarget
from libs.tally.errors import NotFound, TallyError
from libs.tally.time_conversion import timestamp
from libs.views.votes.votes_apply_items import POISON, UNKNOWN, fold_item
from services.cli.command_decorator import Execute, command, command_group
from services.cli.commands.quarantine.records import DropInfo, Quarantined, QuarantineReader
from services.cli.commands.replay import Accept, rebuilt_text, with_titles
from services.cli.operator_actions import record_action
from services.cli.render import Block, Rows, printable

CODECS: Final[dict[ProjectionName, Codec[Any]]] = {
    ProjectionName.PURCHASES: purchases_codec,
    ProjectionName.CATALOGUE: catalogue_codec,
    ProjectionName.TEST: catalogue_codec,
}
PARALLEL: Final = 4


@dataclass(frozen=True, slots=True)
class Trial:
    """A record, and the reason why this version cannot process it either; None if it can."""

    record: Quarantined
    reason_now: str | None

    @property
    def processable(self) -> bool:
        return self.reason_now is None


def try_again(one: Quarantined) -> Trial:
    return Trial(one, _reason(one))


@dataclass(frozen=True, slots=True)
class Chosen:
    """Partitions to rebuild, by topic, and the processable dropped records that prevent rebuilding others."""

    partitions: dict[ProjectionName, set[int]]
    forbidding: list[Quarantined]


def choose(trials: Sequence[Trial]) -> Chosen:
    """Choose the partitions with a processable undecided record and without a processable dropped one."""
    processable = [trial.record for trial in trials if trial.processable]
    wanted = {(one.topic, one.partition) for one in processable if one.drop is None}
    forbidding = [one for one in processable if one.drop is not None and (one.topic, one.partition) in wanted]
    wanted -= {(one.topic, one.partition) for one in forbidding}
    partitions = {topic: {number for of, number in wanted if of is topic} for topic in ProjectionName}
    return Chosen({topic: numbers for topic, numbers in partitions.items() if numbers}, forbidding)


async def rebuild(deployment: Deployment, chosen: Chosen, *, accept: bool) -> AsyncIterator[Rebuilt]:
    """Rebuild the partitions in a new generation and swap it in once verified. Raises as `Job.run`."""
    for projection, partitions in chosen.partitions.items():
        target = ReplayTarget(Rebuildable(projection), partitions=partitions)
        done = await Job(deployment, target, parallel=PARALLEL).run(accept=accept)
        yield await with_titles(deployment, done)


def _reason(one: Quarantined) -> str | None:
    if one.topic is ProjectionName.VOTES:
        kind, *rest = fold_item(vote_codec.decode(one.value()), one.record.offset, one.record.timestamp)
        return str(rest[-1]) if kind in (POISON, UNKNOWN) else None
    event = CODECS[one.topic].decode(one.value())
    return event.reason if isinstance(event, Undecodable) else None


A_LINE: Final = 16
NOTHING: Final = "No record is in quarantine."


@dataclass(frozen=True, slots=True)
class QuarantinedRecords:
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
class DroppedRecord:
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


def list_text(result: QuarantinedRecords) -> Iterator[Block]:
    yield Rows([_row(one) for one in result.records])
    if not result.records:
        yield NOTHING if not result.hidden else "No record in quarantine is open."
    if result.hidden:
        yield f"{result.hidden:,} dropped, not shown; --all shows them."


def drop_text(result: DroppedRecord) -> Iterator[Block]:
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


app = command_group("Records that could not be processed.")

OfTopic = Annotated[ProjectionName | None, typer.Option("--topic", help="Only this topic.")]
Topic = Annotated[ProjectionName, typer.Argument(help="Topic of the record.", show_default=False)]
Partition = Annotated[int, typer.Argument(min=0, show_default=False)]
Offset = Annotated[int, typer.Argument(min=0, show_default=False)]


class CouldBeProcessed(TallyError):
    """The record cannot be dropped: the next replay processes it."""

    code = "conflict"


@app.command("list")
@command(text=list_text)
async def list_(
    deployment: Deployment,
    topic: OfTopic = None,
    everything: Annotated[bool, typer.Option("--all", help="Include dropped records.")] = False,
) -> QuarantinedRecords:
    """List the records that could not be processed, with the reasons, except for dropped ones."""
    found = await _read(deployment, topic)
    shown = [one for one in found if everything or one.drop is None]
    return QuarantinedRecords(shown, len(found) - len(shown))


@app.command()
@command(text=record_text)
async def show(deployment: Deployment, topic: Topic, partition: Partition, offset: Offset) -> WholeRecord:
    """Show a record of the log with its headers and the reason why it was not processed."""
    return WholeRecord.of(await _find(QuarantineReader(deployment), topic, partition, offset))


@app.command()
@command(text=drop_text)
async def drop(
    deployment: Deployment,
    topic: Topic,
    partition: Partition,
    offset: Offset,
    reason: Annotated[str | None, typer.Option("--reason", help="Reason, stored with the decision.")] = None,
    execute: Execute = False,
) -> DroppedRecord:
    """Decide never to process a record. The log is not changed; the decision is stored in the object store.

    The decision applies to all replays. A record that this version can process is not dropped, since the next
    replay processes it; if a later version can process a dropped record, `retry` does not rebuild that partition.
    """
    one = await _find(QuarantineReader(deployment), topic, partition, offset)
    if one.drop is None and try_again(one).processable:
        raise CouldBeProcessed(
            f"This version can process {one.where()}, so the next replay will process it. "
            f"`tally quarantine retry --topic {one.topic}` processes it now."
        )
    if execute and one.drop is None:
        await record_action(deployment, "quarantined record dropped", record=one.where(), reason=reason)
        one = replace(one, drop=await keep(deployment.store, _decision(one, reason)))
    return DroppedRecord(one, execute)


@app.command()
@command(
    text=retry_text,
    is_fine=lambda result: not result.forbidding and all(one.swapped for one in result.rebuilt),
)
async def retry(
    deployment: Deployment, topic: OfTopic = None, execute: Execute = False, accept: Accept = False
) -> Retried:
    """Decode the quarantined records with this version, and rebuild the partitions in which it can process more.

    Like `tally replay run` this builds a new copy of the views; readers use the current one until the new one is
    verified. Votes are compared with the log; the catalogue and purchases with the current views, and since these
    are meant to differ, --accept-differences is required.
    """
    trials = [try_again(one) for one in await _read(deployment, topic)]
    chosen, done = choose(trials), list[Rebuilt]()
    if execute:
        for projection, partitions in chosen.partitions.items():
            where = " ".join(map(str, sorted(partitions)))
            await record_action(
                deployment, "quarantine retried", topic=projection, partitions=where, accept_differences=accept
            )
        done = [rebuilt async for rebuilt in rebuild(deployment, chosen, accept=accept)]
    return Retried(trials, chosen.partitions, chosen.forbidding, done, execute)


async def _read(deployment: Deployment, topic: ProjectionName | None) -> list[Quarantined]:
    deployment.progress.begin("Reading the log", None)
    reader = QuarantineReader(deployment)
    return [
        one for projection in ([topic] if topic else ProjectionName) for one in await reader.all_of(projection)
    ]


async def _find(reader: QuarantineReader, projection: ProjectionName, partition: int, offset: int) -> Quarantined:
    partitions = reader.projections[projection].topic.numbers
    if partition not in partitions:
        raise typer.BadParameter(f"{projection} has partitions 0 to {partitions[-1]}.", param_hint="PARTITION")
    found = await reader.find(projection, partition, offset)
    if found is None:
        raise NotFound(
            f"{projection} {partition} {offset} is not in quarantine. "
            "`tally quarantine list --all` lists all records."
        )
    return found


def _decision(one: Quarantined, reason: str | None) -> Drop:
    return Drop(
        topic=one.record.topic,
        partition=one.partition,
        offset=one.offset,
        log_id=one.position.log_id,
        sha256=sha256(one.value()).hexdigest(),
        quarantined_for=one.reason,
        dropped_at=timestamp(time.time_ns() // 1000) or "",
        reason=reason,
    )
