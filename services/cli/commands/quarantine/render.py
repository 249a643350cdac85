"""Renders quarantined records as text, tables and JSON."""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Any, Final

from libs.monitoring.quarantine import name_of
from services.cli.commands.quarantine.records import Quarantined
from services.cli.commands.quarantine.retry import Chosen, Trial
from services.cli.commands.replay.job import Rebuilt
from services.cli.tables import Cells, lines_of, plain_console, printable, table_of

A_LINE: Final = 16
NOTHING: Final = "No record is in quarantine."
TEXTS: Final = ("topic", "appended", "reason", "dropped", "now")


def as_json(one: Quarantined) -> dict[str, Any]:
    return {
        "topic": one.fold,
        "partition": one.partition,
        "offset": one.record.offset,
        "appended": one.appended,
        "size": len(one.value),
        "reason": one.reason,
        "dropped": None if one.drop is None else {"at": one.drop.dropped_at, "reason": one.drop.reason},
    }


def whole_as_json(one: Quarantined) -> dict[str, Any]:
    """Return the record with its key, headers and value; bytes in base64."""
    return as_json(one) | {
        "key": None if one.record.key is None else _base64(one.record.key),
        "headers": [{"name": name, "value": _base64(value)} for name, value in one.record.headers],
        "value": _base64(one.value),
    }


def trials_as_json(trials: Sequence[Trial], chosen: Chosen, done: Sequence[Rebuilt]) -> dict[str, Any]:
    return {
        "records": [
            as_json(trial.one) | {"foldable": trial.foldable, "reason_now": trial.reason} for trial in trials
        ],
        "partitions": {
            fold.value: sorted(partitions) for fold, partitions in chosen.partitions.items() if partitions
        },
        "forbidding": [as_json(one) for one in chosen.forbidding],
        "rebuilt": [one.as_json() for one in done],
    }


def show_list(found: Sequence[Quarantined], hidden: int) -> None:
    """Print a table on a terminal, otherwise one line per record."""
    out = plain_console()
    _show_rows([_row(one) for one in found])
    if not found:
        out.print(NOTHING if not hidden else "No record in quarantine is open.")
    if hidden:
        out.print(f"{hidden:,} dropped, not shown; --all shows them.")


def show_drop(one: Quarantined) -> None:
    """Print the decision, or the record that it would drop."""
    out = plain_console()
    out.print(f"{one.where}, appended {one.appended}, {len(one.value):,} bytes: {printable(one.reason)}")
    out.print("Run again with --execute to drop it." if one.drop is None else f"Dropped at {one.drop.dropped_at}.")


def show_trials(trials: Sequence[Trial], chosen: Chosen, *, execute: bool) -> None:
    """Print whether this version can fold each record, and the partitions to rebuild."""
    out = plain_console()
    if not trials:
        out.print(NOTHING)
    _show_rows(
        [_row(trial.one) | {"size": "", "now": printable(trial.reason or "can be folded")} for trial in trials]
    )
    for one in chosen.forbidding:
        name = name_of(one.record.topic, one.partition, one.record.offset)
        out.print(
            f"{one.fold} {one.partition} is not rebuilt: that would also fold {one.where}, which was dropped. "
            f"To allow this, delete {name} from the object store."
        )
    partitions = ", ".join(f"{fold} {one}" for fold, its in chosen.partitions.items() for one in sorted(its))
    if partitions and not execute:
        out.print(f"To be rebuilt: {partitions}. Run again with --execute to do it.")
    if trials and not partitions:
        out.print("There is nothing to rebuild.")


def _show_rows(rows: Sequence[Cells]) -> None:
    out = plain_console()
    if out.is_terminal and rows:
        out.print(table_of(rows, left=TEXTS), soft_wrap=False)
    else:
        for line in lines_of(rows):
            out.out(line)


def show_whole(one: Quarantined) -> None:
    """Print a record's metadata, an empty line, and its value: as text if printable, otherwise in hexadecimal."""
    out = plain_console()
    facts = {
        "appended": one.appended,
        "reason": printable(one.reason),
        "key": None if one.record.key is None else _text(one.record.key),
        **{f"header {printable(name)}": _text(value) for name, value in one.record.headers},
        "size": f"{len(one.value):,} bytes",
    }
    if one.drop is not None:
        facts["dropped"] = f"{one.drop.dropped_at} {one.drop.reason or ''}".rstrip()
    out.out(one.where)
    for name, value in facts.items():
        if value is not None:
            out.out(f"{name}: {value}")
    out.out("")
    for line in text_lines(one.value) or hex_lines(one.value):
        out.out(line)


def text_lines(value: bytes) -> list[str]:
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


def _row(one: Quarantined) -> dict[str, str]:
    return {
        "topic": one.fold,
        "partition": str(one.partition),
        "offset": str(one.record.offset),
        "appended": one.appended,
        "size": str(len(one.value)),
        "reason": printable(one.reason),
        "dropped": "" if one.drop is None else one.drop.reason or one.drop.dropped_at,
    }


def _text(value: bytes) -> str:
    return " ".join(text_lines(value)) or value.hex(" ")


def _base64(value: bytes) -> str:
    return b64encode(value).decode()
