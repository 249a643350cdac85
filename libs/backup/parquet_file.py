"""Writes records to a Parquet file, with columns for analysis."""

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from libs.backup.errors import ExportRefused
from libs.backup.exported_topics import CODECS
from libs.backup.manifest import ExportedPartition
from libs.backup.private_files import flush, open_own, sha256_of
from libs.contracts.codec import Undecodable
from libs.contracts.log_records import LogRecord
from libs.contracts.ndjson_codec import is_one_line_of_json

ROW_GROUP: Final = 50_000
"""Rows per group: about 50 MB of votes in memory."""


class ParquetFile:
    """File of one partition, renamed to its final name once complete; after an interruption it is written again.

    `event` is the record's JSON text, `value` its bytes if it is not JSON. `participants` and `counts` are
    parallel lists; of an external source's report `participants` are the source's own ids.
    """

    def __init__(self, directory: Path, part: ExportedPartition) -> None:
        self._arrow, self._parquet = pyarrow_modules()
        self._part = part
        self._path = directory / part.file
        self._rows: list[dict[str, Any]] = []
        self._writer: Any = None
        self.next, self.records = part.start, 0
        if self._path.exists():
            self.next, self.records = part.end, self._parquet.read_metadata(self._path).num_rows
            return
        self._partial = self._path.with_name(self._path.name + ".part")
        self._file = open_own(self._partial)
        self._file.truncate()
        self._writer = self._parquet.ParquetWriter(self._file, schema(self._arrow), compression="zstd")

    def write(self, records: Sequence[LogRecord]) -> None:
        events = CODECS[self._part.kind].decode_many([record.value for record in records])
        self._rows += [self._row(record, event) for record, event in zip(records, events, strict=True)]
        self.records += len(records)
        while len(self._rows) >= ROW_GROUP:
            self._write_group(self._rows[:ROW_GROUP])
            del self._rows[:ROW_GROUP]

    def finish(self) -> str:
        """Flush the file to the disk, give it its final name, and return its SHA-256."""
        if self._writer is not None:
            self._write_group(self._rows)
            self._writer.close()
            flush(self._file)
            self._partial.replace(self._path)
        return sha256_of(self._path)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._file.close()

    def _write_group(self, rows: list[dict[str, Any]]) -> None:
        if rows:
            self._writer.write_table(self._arrow.Table.from_pylist(rows, schema(self._arrow)), ROW_GROUP)

    def _row(self, record: LogRecord, event: Any) -> dict[str, Any]:
        is_json = is_one_line_of_json(record.value)
        return {
            "topic": self._part.kind,
            "partition": self._part.partition,
            "offset": record.offset,
            "time": record.timestamp_ms,
            "event": record.value.decode() if is_json else None,
            "value": None if is_json else record.value,
            **({} if isinstance(event, Undecodable) else _columns(event)),
        }


def _columns(event: Any) -> dict[str, Any]:
    vote = getattr(event, "vote", None)
    choices = getattr(event, "choices", None) or getattr(event, "counts", None)
    if vote is not None:
        choices = [(vote.participant_key, vote.count)]
    return {
        "type": event.type,
        "contest": getattr(event, "contest", None) or getattr(vote, "contest_key", None),
        "voter": getattr(event, "voter", None),
        "vote_id": getattr(event, "vote_id", None),
        "source": getattr(event, "source", None),
        "participants": None if choices is None else [choice[0] for choice in choices],
        "counts": None if choices is None else [choice[1] for choice in choices],
    }


def schema(arrow: ModuleType) -> Any:
    text = arrow.string()
    return arrow.schema(
        {
            "topic": text,
            "partition": arrow.int32(),
            "offset": arrow.int64(),
            "time": arrow.timestamp("ms", tz="UTC"),
            "type": text,
            "contest": text,
            "voter": text,
            "vote_id": text,
            "source": text,
            "participants": arrow.list_(text),
            "counts": arrow.list_(arrow.int64()),
            "event": text,
            "value": arrow.binary(),
        }
    )


def pyarrow_modules() -> tuple[ModuleType, ModuleType]:
    """Import pyarrow and its Parquet module. Raises `ExportRefused` if it is not installed."""
    try:
        import pyarrow  # noqa: PLC0415
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError:
        raise ExportRefused("Parquet needs pyarrow: pip install 'tallykeeper[parquet]'.") from None
    return pyarrow, parquet
