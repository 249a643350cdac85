"""Files and directories that only their owner can read."""

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
    """Made if it is missing, closed to others, and held against a second export until the end, however it comes.

    Raises `ExportRefused`, also for what the file system says meanwhile.
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
    """For reading and writing, as it is; made if it is missing."""
    return cast(BinaryIO, os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b"))


def write_own(path: Path, content: bytes) -> None:
    """The whole file or, after a crash, the former one."""
    coming = path.with_name(path.name + ".part")
    with open_own(coming) as file:
        file.truncate()
        file.write(content)
        flush(file)
    coming.replace(path)


def flush(file: BinaryIO) -> None:
    """To the disk itself."""
    file.flush()
    os.fsync(file.fileno())


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
