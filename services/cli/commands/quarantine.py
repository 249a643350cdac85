"""`tally quarantine`: lists, shows, drops and retries quarantined records."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final

from typer import Argument, BadParameter, Option

from libs.contracts.ndjson_codec import json_form
from libs.deployment.deployment import Deployment
from libs.monitoring.quarantine import Quarantined, name_of, read_quarantined, to_rebuild
from libs.replay.job import Job, Rebuilt
from libs.replay.targets import ReplayTarget
from libs.tally.errors import NotFound
from libs.views.generations.generations import ProjectionName
from services.cli.command_decorator import Execute, command, command_group
from services.cli.commands.replay import Accept, rebuilt_text, with_titles
from services.cli.operator_actions import record_action
from services.cli.output import Block, ExitCode, Result, Rows

PARALLEL: Final = 4
A_LINE: Final = 16
"""Bytes in a line of a hex dump."""
NOTHING: Final = "No record is in quarantine."

app = command_group("Records that could not be processed.")

OfTopic = Annotated[ProjectionName | None, Option("--topic", help="Only this topic.")]
Topic = Annotated[ProjectionName, Argument(help="Topic of the record.", show_default=False)]
Partition = Annotated[int, Argument(min=0, show_default=False)]
Offset = Annotated[int, Argument(min=0, show_default=False)]


@command(app, "list")
async def list_(
    deployment: Deployment,
    topic: OfTopic = None,
    everything: Annotated[bool, Option("--all", help="Include dropped records.")] = False,
) -> Result:
    """List the records that could not be processed, with the reasons, except for dropped ones."""
    found = await read_quarantined(deployment, topic)
    shown = [record for record in found if everything or record.drop is None]
    hidden = len(found) - len(shown)
    text: list[Block] = [Rows([_row(record) for record in shown])]
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
    found.require_unprocessable()
    if execute and found.drop is None:
        await record_action(deployment, "quarantined record dropped", record=found.where(), reason=reason)
        found = await found.dropped_for(reason, deployment.store)
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
    reasons = [(record, record.reason_now()) for record in await read_quarantined(deployment, topic)]
    partitions, forbidding = to_rebuild(record for record, reason in reasons if reason is None)
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
    rows = [_row(record) | {"size": "", "now": now or "can be processed"} for record, now in reasons]
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


def _row(found: Quarantined) -> dict[str, object]:
    drop = found.drop
    return {
        "topic": found.topic,
        "partition": found.partition,
        "offset": str(found.offset),
        "appended": found.appended,
        "size": found.size,
        "reason": found.reason,
        "dropped": "" if drop is None else drop.reason or drop.dropped_at,
    }


async def _find(deployment: Deployment, topic: ProjectionName, partition: int, offset: int) -> Quarantined:
    numbers = deployment.projections[topic].topic.numbers
    if partition not in numbers:
        raise BadParameter(f"{topic} has partitions 0 to {numbers[-1]}.", param_hint="PARTITION")
    for found in await read_quarantined(deployment, topic, partition, offset):
        return found
    raise NotFound(
        f"{topic} {partition} {offset} is not in quarantine. `tally quarantine list --all` lists all records."
    )
