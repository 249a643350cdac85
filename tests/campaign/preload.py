"""Faults of a process's clock, files and memory, by a library that is preloaded into each process (`preload.c`).

A process shares a page of memory with the campaign; one that starts again finds the same page. Needs Linux and a
C compiler, but not root.
"""

import asyncio
import ctypes
import mmap
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from unittest import mock

from libs.local_stack.child_process import Process

SOURCE: Final = Path(__file__).with_name("preload.c")
COMPILERS: Final = ("cc", "gcc", "clang")
FLUSH: Final = struct.Struct("=Qq")
"""As `struct flushed` in `preload.c`."""


class Page(ctypes.Structure):
    """As `struct page` in `preload.c`; all zero, it changes nothing."""

    _fields_ = (
        ("clock_off_ns", ctypes.c_int64),
        ("clock_reads", ctypes.c_int64),
        ("error", ctypes.c_int32),
        ("delay_ms", ctypes.c_int32),
        ("refused", ctypes.c_int64),
        ("delayed", ctypes.c_int64),
        ("memory_short", ctypes.c_int64),
        ("memory_asked", ctypes.c_int64),
        ("memory_refused", ctypes.c_int64),
        ("directory", ctypes.c_char * 1024),
    )


def obstacle() -> str:
    """Return why this machine cannot have these faults; empty if it can."""
    if sys.platform != "linux":
        return "faults of clocks, disks and short memory need Linux"
    return (
        ""
        if _compiler()
        else "faults of clocks, disks and short memory need a C compiler: `apt-get install gcc libc6-dev`"
    )


def _compiler() -> str | None:
    return next(filter(None, map(shutil.which, COMPILERS)), None)


@dataclass(frozen=True)
class Preload:
    """The compiled library, and the pages of processes by their names."""

    directory: Path
    library: Path
    _pages: dict[str, Page] = field(default_factory=dict)

    def page(self, name: str) -> Page:
        if name not in self._pages:
            file = self._file(name)
            file.write_bytes(bytes(ctypes.sizeof(Page)))
            with file.open("r+b") as opened:
                self._pages[name] = Page.from_buffer(mmap.mmap(opened.fileno(), 0))
        return self._pages[name]

    def environment(self, name: str) -> dict[str, str]:
        """Return the environment variables of a process of this name."""
        self.page(name)
        return {
            "LD_PRELOAD": str(self.library),
            "CAMPAIGN_PAGE": str(self._file(name)),
            "CAMPAIGN_FLUSHES": str(self.notes),
        }

    def flushed(self) -> dict[int, int]:
        """Return the size up to which each file was on the disk after its last flush, by its inode.

        All processes append to one file of notes: a file gets the inode of one that another process has deleted.
        """
        return dict(FLUSH.iter_unpack(self.notes.read_bytes())) if self.notes.exists() else {}

    @property
    def notes(self) -> Path:
        return self.directory / "flushes"

    def _file(self, name: str) -> Path:
        return self.directory / f"{name}.page"


def build(directory: Path) -> Preload:
    """Compile the library into a directory."""
    library = directory / "preload.so"
    compiler = _compiler()
    assert compiler is not None, obstacle()
    options = ("-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl", "-lpthread")
    done = subprocess.run([compiler, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Preload(directory, library)


@asynccontextmanager
async def preloaded(directory: Path) -> AsyncIterator[Preload | None]:
    """Preload the library into the processes of stacks, if this machine can, while the context is open."""
    if obstacle():
        yield None
        return
    await asyncio.to_thread(directory.mkdir)
    preload, spawn, fsync = await asyncio.to_thread(build, directory), Process._spawn, os.fsync

    def spawn_preloaded(process: Process) -> None:
        process._own |= preload.environment(process.name)
        spawn(process)

    def noted_fsync(handle: int) -> None:
        """Note what the stack's supervisor flushes, which runs in this process."""
        found = os.fstat(handle)
        fsync(handle)
        with preload.notes.open("ab") as notes:
            notes.write(FLUSH.pack(found.st_ino, found.st_size))

    with (
        mock.patch.object(Process, "_spawn", spawn_preloaded),
        mock.patch.object(os, "fsync", noted_fsync),
    ):
        yield preload
