"""Files and directories of this machine that only their owner uses, not made or prepared by another user."""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import file_digest
from pathlib import Path
from typing import BinaryIO, Final, cast

from platformdirs import user_data_path

WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
SECRET_BYTES: Final = 32


def default_data_dir() -> Path:
    """Return the user's directory for this application's data, wherever one stands."""
    return user_data_path("tallykeeper", appauthor=False)


class NotPrivate(OSError):
    """Another user made the file or directory, or could have written to it."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(errno.EACCES, reason, str(path))


@contextmanager
def own_directory(path: Path) -> Iterator[int]:
    """Create the directory if it is missing, make it private, and yield its descriptor.

    Raises `NotPrivate` if it is a symbolic link, or another user owns it or something directly in it, or others
    could have written to it; `OSError` if it cannot be used.
    """
    with suppress(FileExistsError):
        path.mkdir(mode=0o700, parents=True)
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if path.is_symlink():
            raise NotPrivate(path, "it is a symbolic link")
        if not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        check_owner(path, found)
        os.fchmod(handle, 0o700)  # before the look at its content, which nobody else changes from then on
        try:
            _check_content(path, handle, found)
        except NotPrivate:
            os.fchmod(handle, stat.S_IMODE(found.st_mode))  # or the next attempt would accept it
            raise
        yield handle
    finally:
        os.close(handle)


def _check_content(path: Path, handle: int, before: os.stat_result) -> None:
    with os.scandir(handle) as entries:
        for entry in entries:
            if before.st_mode & WRITABLE_BY_OTHERS:
                raise NotPrivate(path, "others could write to it, and it is not empty")
            check_owner(path / entry.name, entry.stat(follow_symlinks=False))


def check_owner(path: Path, found: os.stat_result) -> None:
    """Raise `NotPrivate` unless this process's user owns the file."""
    if found.st_uid != os.geteuid():
        raise NotPrivate(path, f"it belongs to another user (uid {found.st_uid})")


def open_private(path: Path, flags: int = os.O_RDWR | os.O_CREAT) -> int:
    """Open a private file, created if missing and not truncated, and return its descriptor.

    Raises `NotPrivate` for a symbolic link, a file of another user, or one with a second name.
    """
    try:
        handle = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotPrivate(path, "it is a symbolic link") from None
        raise
    try:
        found = os.fstat(handle)
        check_owner(path, found)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:  # 0: replaced meanwhile
            raise NotPrivate(path, "it is no regular file of one name")
        os.fchmod(handle, 0o600)
    except OSError:
        os.close(handle)
        raise
    return handle


def open_for_writing(path: Path) -> BinaryIO:
    """Return the private file for reading and writing. Raises as `open_private`."""
    return cast(BinaryIO, os.fdopen(open_private(path), "r+b"))


def write_private(path: Path, content: str | bytes) -> None:
    """Replace the file atomically; only its owner can read it."""
    partial = path.with_name(path.name + ".part")
    partial.unlink(missing_ok=True)
    with os.fdopen(open_private(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        flush(file)
    partial.replace(path)
    flush_path(path.parent)


def read_private(path: Path) -> str:
    """Return the file's text. Raises `NotPrivate`, and `FileNotFoundError` if it is missing."""
    with os.fdopen(open_private(path, os.O_RDONLY)) as file:
        return file.read()


def remembered_secret(path: Path) -> str:
    """Return the file's random secret in hexadecimal digits; created by the first call."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path, secrets.token_hex(SECRET_BYTES))
    return read_private(path)


def flush(file: BinaryIO) -> None:
    """Flush the file to the disk (fsync)."""
    file.flush()
    os.fsync(file.fileno())


def flush_path(path: Path) -> None:
    """Flush a file that something else wrote, or a directory's names, to the disk. Raises `FileNotFoundError`."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_file(path: Path, below: Path) -> None:
    """Flush a file, and the names of its directories up to `below`: it is found again only then.

    Raises `FileNotFoundError`.
    """
    flush_path(path)
    for directory in path.parents:
        flush_path(directory)
        if directory == below:
            return


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
