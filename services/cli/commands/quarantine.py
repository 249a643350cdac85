"""`tally quarantine`: lists, shows, drops and retries quarantined records."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Annotated, Any, Final

from aiokafka import ConsumerRecord
from typer import Argument, BadParameter, Option

from libs.contracts.catalogue_events import catalogue_codec
from libs.contracts.codec import Codec, Undecodable, vote_codec
from libs.contracts.log_records import Position
from libs.contracts.ndjson_codec import HIDDEN, json_form
from libs.contracts.purchase_events import purchases_codec
from libs.deployment.deployment import Deployment
from libs.monitoring.quarantine import Drop, dropped, keep, name_of, reasons_of
from libs.replay.job import Job, Rebuilt
from libs.replay.targets import ReplayTarget
from libs.tally.errors import NotFound, TallyError
from libs.tally.time_conversion import timestamp
from libs.views.generations.generations import ProjectionName
from libs.views.votes.votes_apply_items import POISON, UNKNOWN, fold_item
from services.cli.command_decorator import Execute, command, command_group
from services.cli.commands.replay import Accept, rebuilt_text, with_titles
from services.cli.operator_actions import record_action
from services.cli.output import Block, ExitCode, Result, Rows

CODECS: Final[dict[ProjectionName, Codec[Any]]] = {
    ProjectionName.PURCHASES: purchases_codec,
    ProjectionName.CATALOGUE: catalogue_codec,
    ProjectionName.TEST: catalogue_codec,
}
PARALLEL: Final = 4
A_LINE: Final = 16
"""Bytes in a line of a hex dump."""
NOTHING: Final = "No record is in quarantine."

app = command_group("Records that could not be processed.")

OfTopic = Annotated[ProjectionName | None, Option("--topic", help="Only this topic.")]
Topic = Annotated[ProjectionName, Argument(help="Topic of the record.", show_default=False)]
Partition = Annotated[int, Argument(min=0, show_default=False)]
Offset = Annotated[int, Argument(min=0, show_default=False)]


class CouldBeProcessed(TallyError):
    """The record cannot be dropped: the next replay processes it."""

    code = "conflict"


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A record that could not be processed, the reason, and the decision never to process it (None: undecided)."""

    topic: ProjectionName
    partition: int
    position: Position = field(metadata=HIDDEN)
    """Position of the view, with the id of its log."""
    reason: str
    drop: Drop | None = field(metadata=HIDDEN)
    record: "ConsumerRecord[bytes, bytes]" = field(metadata=HIDDEN)

    @property
    def offset(self) -> int:
        return int(self.record.offset)

    @property
    def appended(self) -> str:
        return timestamp(self.record.timestamp * 1000) or ""

    @property
    def size(self) -> int:
        return len(self.value())

    @property
    def dropped(self) -> dict[str, str | None] | None:
        return None if self.drop is None else {"at": self.drop.dropped_at, "reason": self.drop.reason}

    def value(self) -> bytes:
        return self.record.value or b""

    def where(self) -> str:
        """Return topic, partition and offset, as arguments of the commands."""
        return f"{self.topic} {self.partition} {self.offset}"

    def reason_now(self) -> str | None:
        """Decode the record again, and return why this version cannot process it either; None if it can."""
        if self.topic is ProjectionName.VOTES:
            kind, *rest = fold_item(vote_codec.decode(self.value()), self.record.offset, self.record.timestamp)
            return str(rest[-1]) if kind in (POISON, UNKNOWN) else None
        event = CODECS[self.topic].decode(self.value())
        return event.reason if isinstance(event, Undecodable) else None

    def row(self) -> dict[str, object]:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "offset": str(self.offset),
            "appended": self.appended,
            "size": self.size,
            "reason": self.reason,
            "dropped": "" if self.drop is None else self.drop.reason or self.drop.dropped_at,
        }


@command(app, "list")
async def list_(
    deployment: Deployment,
    topic: OfTopic = None,
    everything: Annotated[bool, Option("--all", help="Include dropped records.")] = False,
) -> Result:
    """List the records that could not be processed, with the reasons, except for dropped ones."""
    found = await _read(deployment, topic)
    shown = [record for record in found if everything or record.drop is None]
    hidden = len(found) - len(shown)
    text: list[Block] = [Rows([record.row() for record in shown])]
    if not shown:
        text.append("No record in quarantine is open." if hidden else NOTHING)
    if hidden:
        text.append(f"{hidden:,} dropped, not shown; --all shows them.")
    return Result({"records": shown, "hidden": hidden}, text)


@command(app)
async def show(deployment: Deployment, topic: Topic, partition: Partition, offset: Offset) -> Result:
    """Show a record of the log with its headers and the reason why it was not processed."""
    found = await _find(deployment, topic, partition, offset)
    headers = [{"name": name, "value": value} for name, value in found.record.headers]
    members = {"key": found.record.key, "headers": headers, "value": found.value()}
    return Result(json_form(found) | members, _record_text(found))


def _record_text(found: Quarantined) -> Iterator[Block]:
    """Yield a record's metadata, an empty line, and its value: as text if printable, otherwise in hexadecimal."""
    facts = {
        "appended": found.appended,
        "reason": found.reason,
        "key": None if found.record.key is None else _text(found.record.key),
        **{f"header {name}": _text(value) for name, value in found.record.headers},
        "size": f"{found.size:,} bytes",
        "dropped": None if found.drop is None else f"{found.drop.dropped_at} {found.drop.reason or ''}".rstrip(),
    }
    yield found.where()
    yield from (f"{name}: {value}" for name, value in facts.items() if value is not None)
    yield ""
    yield from _text_lines(found.value()) or _hex_lines(found.value())


def _text(value: bytes) -> str:
    return " ".join(_text_lines(value)) or value.hex(" ")


def _text_lines(value: bytes) -> Sequence[str]:
    """Return the lines of the text; empty for other bytes, and for text with control characters."""
    try:
        lines = value.decode().split("\n")
    except UnicodeDecodeError:
        return []
    return lines if all(line.isprintable() for line in lines) else []


def _hex_lines(value: bytes) -> Iterator[str]:
    """Yield a hex dump: offset, 16 bytes, and their printable ASCII characters."""
    for at in range(0, len(value), A_LINE):
        piece = value[at : at + A_LINE]
        readable = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in piece)
        yield f"{at:08x}  {piece.hex(' '):<{3 * A_LINE - 1}}  {readable}"


@command(app)
async def drop(
    deployment: Deployment,
    topic: Topic,
    partition: Partition,
    offset: Offset,
    reason: Annotated[str | None, Option(help="Reason, stored with the decision.")] = None,
    execute: Execute = False,
) -> Result:
    """Decide never to process a record. The log is not changed; the decision is stored in the object store.

    The decision applies to all replays. A record that this version can process is not dropped, since the next
    replay processes it; if a later version can process a dropped record, `retry` does not rebuild that partition.
    """
    found = await _find(deployment, topic, partition, offset)
    if found.drop is None and found.reason_now() is None:
        raise CouldBeProcessed(
            f"This version can process {found.where()}, so the next replay will process it. "
            f"`tally quarantine retry --topic {found.topic}` processes it now."
        )
    if execute and found.drop is None:
        await record_action(deployment, "quarantined record dropped", record=found.where(), reason=reason)
        decision = Drop(
            topic=found.record.topic,
            partition=partition,
            offset=offset,
            log_id=found.position.log_id,
            sha256=sha256(found.value()).hexdigest(),
            quarantined_for=found.reason,
            dropped_at=timestamp(time.time_ns() // 1000) or "",
            reason=reason,
        )
        found = replace(found, drop=await keep(deployment.store, decision))
    text = [f"{found.where()}, appended {found.appended}, {found.size:,} bytes: {found.reason}"]
    done = "" if found.drop is None else f"Dropped at {found.drop.dropped_at}."
    return Result.change({"record": found}, text, execute, done, "drop it", nothing=done)


@command(app)
async def retry(
    deployment: Deployment, topic: OfTopic = None, execute: Execute = False, accept: Accept = False
) -> Result:
    """Decode the quarantined records with this version, and rebuild the partitions in which it can process more.

    Like `tally replay run` this builds a new copy of the views; readers use the current one until the new one is
    verified. Votes are compared with the log; the catalogue and purchases with the current views, and since these
    are meant to differ, --accept-differences is required.
    """
    reasons = [(record, record.reason_now()) for record in await _read(deployment, topic)]
    partitions, forbidding = _choose(record for record, reason in reasons if reason is None)
    rebuilt: list[Rebuilt] = []
    if execute:
        for projection, numbers in partitions.items():
            where = " ".join(map(str, sorted(numbers)))
            await record_action(
                deployment, "quarantine retried", topic=projection, partitions=where, accept_differences=accept
            )
        for projection, numbers in partitions.items():
            target = ReplayTarget(projection, partitions=numbers)
            done = await Job(deployment, target, parallel=PARALLEL).run(accept=accept)
            rebuilt.append(await with_titles(deployment, done))
    trials = [{"record": record, "reason_now": now, "processable": now is None} for record, now in reasons]
    rows = [record.row() | {"size": "", "now": now or "can be processed"} for record, now in reasons]
    text: list[Block] = [Rows(rows) if rows else NOTHING]
    for one in forbidding:
        name = name_of(one.record.topic, one.partition, one.offset)
        text.append(
            f"{one.topic} {one.partition} is not rebuilt: that would also process {one.where()}, "
            f"which was dropped. To allow this, delete {name} from the object store."
        )
    listed = ", ".join(f"{name} {number}" for name, numbers in partitions.items() for number in sorted(numbers))
    if partitions and not execute:
        text.append(f"To be rebuilt: {listed}. Run again with --execute to do it.")
    if reasons and not partitions:
        text.append("There is nothing to rebuild.")
    text += [block for done in rebuilt for block in rebuilt_text(done)]
    members = {"records": trials, "partitions": partitions, "forbidding": forbidding, "rebuilt": rebuilt}
    return Result(members, text, ExitCode.fine_if(not forbidding and all(done.swapped for done in rebuilt)))


def _choose(processable: Iterable[Quarantined]) -> tuple[dict[ProjectionName, set[int]], list[Quarantined]]:
    """Return the partitions to rebuild, by topic, and the dropped records that prevent rebuilding others.

    To be rebuilt are those with an undecided record and without a dropped one: that would be processed, too.
    """
    records = list(processable)
    wanted = dict.fromkeys((record.topic, record.partition) for record in records if record.drop is None)
    forbidding = [
        record for record in records if record.drop is not None and (record.topic, record.partition) in wanted
    ]
    forbidden = {(record.topic, record.partition) for record in forbidding}
    partitions: dict[ProjectionName, set[int]] = {}
    for topic, partition in wanted:
        if (topic, partition) not in forbidden:
            partitions.setdefault(topic, set()).add(partition)
    return partitions, forbidding


async def _find(deployment: Deployment, topic: ProjectionName, partition: int, offset: int) -> Quarantined:
    numbers = deployment.projections[topic].topic.numbers
    if partition not in numbers:
        raise BadParameter(f"{topic} has partitions 0 to {numbers[-1]}.", param_hint="PARTITION")
    for found in await _read(deployment, topic, partition, offset):
        return found
    raise NotFound(
        f"{topic} {partition} {offset} is not in quarantine. `tally quarantine list --all` lists all records."
    )


async def _read(
    deployment: Deployment, only: ProjectionName | None, partition: int | None = None, offset: int | None = None
) -> list[Quarantined]:
    """Return the live views' quarantined records, including dropped ones, joined with those of the log.

    Raises `LogUnavailable`, `ViewsUnavailable` and `StorageUnavailable`.
    """
    deployment.progress.begin("Reading the log", None)
    found, reader = [], deployment.reader
    for topic, views in deployment.projections.items():
        for number in views.topic.numbers:
            if only not in (None, topic) or partition not in (None, number):
                continue
            live = (await views.read(number)).live
            reasons = await reasons_of(deployment.valkey, views, number, live.number)
            wanted = sorted(at for at in reasons if offset in (None, at))
            if not wanted or live.position is None:
                continue
            drops = await dropped(deployment.store, views.topic.name, number, live.position)
            for at in wanted:
                record = await reader.whole_record(views.topic.name, number, at)
                found.append(Quarantined(topic, number, live.position, reasons[at], drops.get(at), record))
                deployment.progress.advance(1)
    return found
