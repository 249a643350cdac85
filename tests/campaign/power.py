"""Power cuts: all processes of a machine end at once, and each of its files loses what was never flushed.

What an fsync has put on the disk stays (`preload.c` notes it), as do the names of files. Of what was written
since, a file keeps nothing, a part, or a part whose last page is torn. Mapped files (Kafka's indexes) stay as
they are: they then name places that their logs no longer have.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Final

from tests.campaign.disk import directory_of
from tests.campaign.evidence import Choose, expect
from tests.campaign.stage import Stage, kind_of

MAPPED: Final = {".index", ".timeindex", ".txnindex"}
PAGE_BYTES: Final = 4096


@asynccontextmanager
async def power_cut(choose: Choose, stage: Stage) -> AsyncIterator[None]:
    """Kill processes at once and take what their disks do not have; they stay down while the context is open."""
    names = await choose(stage)
    assert stage.preload is not None
    before = stage.pids(names)
    expect(all(before), f"{names} are down already")
    await asyncio.gather(*(stage.stack.kill(name, restart=False) for name in names))
    try:
        flushed = stage.preload.flushed()
        directories = {directory_of(stage, name) for name in names}
        lost = sum(lose_unflushed(directory, flushed, stage.rng) for directory in directories)
        yield
        expect(lost > 0, f"all files of {names} were on the disk")
    finally:
        # servers first, as a machine starts them; a cluster's need one another
        for group in by_start(names):
            await asyncio.gather(*(stage.start(name) for name in group))


def by_start(names: Sequence[str]) -> list[list[str]]:
    """Return the processes in the groups that start together."""
    servers = [name for name in names if kind_of(name) in ("kafka", "valkey")]
    return [group for group in (servers, [name for name in names if name not in servers]) if group]


def lose_unflushed(directory: Path, flushed: Mapping[int, int], rng: Random) -> int:
    """Cut the files below a directory to what was flushed, and return how many bytes are lost.

    `flushed`: bytes on the disk by inode; of files that were never flushed there are none.
    """
    lost = 0
    for file in sorted(path for path in directory.rglob("*") if path.is_file() and path.suffix not in MAPPED):
        found = file.stat()
        kept = min(flushed.get(found.st_ino, 0), found.st_size)
        unflushed = found.st_size - kept
        if not unflushed:
            continue
        written = rng.choice((0, 0, rng.randrange(unflushed + 1)))
        torn = rng.choice((0, min(written, PAGE_BYTES)))
        with file.open("r+b") as opened:
            opened.truncate(kept + written)
            opened.seek(kept + written - torn)
            opened.write(bytes(torn))
            os.fsync(opened.fileno())
        lost += unflushed - written + torn
    return lost
