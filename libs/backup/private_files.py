"""Files and directories readable by their owner only."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import file_digest
from pathlib import Path
from typing import BinaryIO, cast

from libs.backup.errors import ExportRefused


@contextmanager
def own_directory(directory: Path) -> Iterator[None]:
    """Create the directory if missing, make it private, and lock it against a second export.

    Raises `ExportRefused`, also for errors of the file system in the block.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o700)
        handle = os.open(directory, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        finally:
            os.close(handle)
    except BlockingIOError:
        raise ExportRefused(f"Another export is being written to {directory}.") from None
    except OSError as error:
        raise ExportRefused(f"{error.filename or directory}: {error.strerror}") from error


def open_own(path: Path) -> BinaryIO:
    """Open a file for reading and writing, without truncating it; creates it if missing."""
    return cast(BinaryIO, os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b"))


def write_own(path: Path, content: bytes) -> None:
    """Replace the file atomically."""
    partial = path.with_name(path.name + ".part")
    with open_own(partial) as file:
        file.truncate()
        file.write(content)
        flush(file)
    partial.replace(path)


def flush(file: BinaryIO) -> None:
    """Flush the file to the disk (fsync)."""
    file.flush()
    os.fsync(file.fileno())


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
