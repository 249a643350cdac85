"""Another version's Valkey functions: the same code and a comment, so that all names differ."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree, ignore_patterns

from libs.views.valkey import function_libraries

CACHED = (
    function_libraries.layouts,
    function_libraries.libraries,
    function_libraries.version,
    function_libraries.versioned,
)
SCHEMA = re.compile(r"local SCHEMA = (\d+)")
LAYOUT = int(SCHEMA.findall((function_libraries.SOURCES / "votes" / "01_records.lua").read_text())[0])
OTHER_LAYOUT = [(f"local SCHEMA = {LAYOUT} ", "local SCHEMA = 99 ")]
"""Changes for a version with another layout of the votes' views."""


@contextmanager
def functions_of_another_version(folder: Path, changes: Sequence[tuple[str, str]] = ()) -> Iterator[None]:
    """Use functions whose sources differ by a comment, and by `changes` (old and new text), while it is open."""
    own = function_libraries.SOURCES
    function_libraries.SOURCES = changed_copy(own, folder, changes)
    _forget()
    try:
        yield
    finally:
        function_libraries.SOURCES = own
        _forget()


def changed_copy(own: Path, folder: Path, changes: Sequence[tuple[str, str]]) -> Path:
    """Copy the sources into `folder`, and change the copy; repeatable."""
    sources = copytree(own, folder / "views", ignore=ignore_patterns("*.py", "__pycache__"), dirs_exist_ok=True)
    with (sources / "generations" / "reads.lua").open("a") as file:
        file.write("-- of another version\n")
    for old, new in changes:
        [path] = (path for path in sources.rglob("*.lua") if old in path.read_text())
        path.write_text(path.read_text().replace(old, new))
    return sources


def _forget() -> None:
    for each in CACHED:
        each.cache_clear()
