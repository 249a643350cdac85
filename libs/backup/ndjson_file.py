"""Writes records to an NDJSON file, resuming an interrupted export."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from libs.backup.manifest import ExportedPartition
from libs.contracts.log_records import LogRecord
from libs.contracts.ndjson_codec import from_line, to_line
from libs.storage.private_files import flush, open_for_writing


class NdjsonFile:
    """File of one partition; `next` is the offset after the file's last record.

    Opening it removes an incomplete last line.
    """

    def __init__(self, directory: Path, part: ExportedPartition) -> None:
        self.next = part.start
        self.records = 0
        self._part = part
        self._hash = sha256()
        self._file = open_for_writing(directory / part.file)
        whole = 0
        for line in self._file:
            if not line.endswith(b"\n"):
                break
            self.next = from_line(line).offset + 1
            self.records += 1
            self._hash.update(line)
            whole += len(line)
        self._file.truncate(whole)
        self._file.seek(whole)

    def write(self, records: Sequence[LogRecord]) -> None:
        lines = b"".join(to_line(self._part.kind, self._part.partition, record) for record in records)
        self._file.write(lines)
        self._hash.update(lines)
        self.records += len(records)

    def finish(self) -> str:
        """Flush the file to the disk and return its SHA-256."""
        flush(self._file)
        return self._hash.hexdigest()

    def close(self) -> None:
        self._file.close()
