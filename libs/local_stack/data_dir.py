"""Data directory of a stack: locked by one stack at a time; only files created by tally are deleted."""

import fcntl
import os
import shutil
import time
from pathlib import Path

import psutil

from libs.local_stack import errors
from libs.storage.private_files import open_private, own_directory

LOCK = "tally.lock"
MADE_BY_TALLY = (
    "kafka",
    "valkey",
    "objects",
    "logs",
    "ports.json",
    "topology.json",
    "containers.id",
    "stack.json",
    "credentials.json",
)
CLEANUP_S = 20.0


class DataDir:
    """Data directory, locked from `open` to `close`."""

    def __init__(self, path: Path, min_free_mb: int = 0) -> None:
        self.path = path.expanduser().resolve()
        self._min_free_mb = min_free_mb
        self._lock: int | None = None

    @property
    def is_open(self) -> bool:
        return self._lock is not None

    def open(self, *, fresh: bool = False) -> int:
        """Create and lock the directory, private to its owner, and empty it if `fresh`; returns the lock's
        descriptor.

        The lock is held while any process has that descriptor open. If its owner is dead and only the clean-up
        still runs, this waits for at most `CLEANUP_S`. Raises `StackError` if the directory is in use or another
        user's, holds other files, cannot be written, or has too little space.
        """
        try:
            if self.path.is_dir() and not (self.path / LOCK).exists() and any(self.path.iterdir()):
                raise errors.data_dir_not_ours(self.path)
            with own_directory(self.path):  # It holds keys and contests' secrets.
                self._lock = open_private(self.path / LOCK)
            self._acquire(self._lock)
            free_mb = shutil.disk_usage(self.path).free // (1024 * 1024)
            if free_mb < self._min_free_mb:
                raise errors.disk_full(self.path, free_mb)
            if fresh:
                self._wipe()
        except OSError as error:
            self.close()
            raise errors.from_os_error(error, self.path) from error
        except errors.StackError:
            self.close()
            raise
        return self._lock

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _acquire(self, lock: int) -> None:
        deadline = time.monotonic() + CLEANUP_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                text = os.pread(lock, 32, 0).decode(errors="replace").strip()
                owner = int(text) if text.isdecimal() else None
                cleaning_up = owner is not None and not psutil.pid_exists(owner)
                if not cleaning_up or time.monotonic() > deadline:
                    raise errors.data_dir_in_use(self.path, owner) from None
                time.sleep(0.1)
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)

    def _wipe(self) -> None:
        for name in MADE_BY_TALLY:
            made = self.path / name
            if made.is_dir() and not made.is_symlink():
                shutil.rmtree(made)
            else:
                made.unlink(missing_ok=True)
