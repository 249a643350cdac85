"""The data directory: only files created by tally are deleted."""

import stat
from pathlib import Path

import pytest

from libs.local_stack.data_dir import DataDir
from libs.local_stack.errors import StackError


def test_fresh_deletes_what_tally_made_and_nothing_else(tmp_path: Path) -> None:
    first = DataDir(tmp_path / "data")
    first.open()
    (first.path / "kafka").mkdir()
    (first.path / "kafka" / "segment").write_text("votes")
    (first.path / "ports.json").write_text("{}")
    (first.path / "notes.txt").write_text("mine")
    first.close()
    again = DataDir(tmp_path / "data")
    again.open(fresh=True)
    again.close()
    assert sorted(path.name for path in again.path.iterdir()) == ["notes.txt", "tally.lock"]


@pytest.mark.parametrize("fresh", [False, True])
def test_a_directory_with_other_things_in_it_is_left_alone(tmp_path: Path, fresh: bool) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "precious").write_text("mine")
    with pytest.raises(StackError, match="--data-dir"):
        DataDir(tmp_path).open(fresh=fresh)
    assert (tmp_path / "logs" / "precious").exists()
    assert not (tmp_path / "tally.lock").exists()


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    first, second = DataDir(tmp_path / "data"), DataDir(tmp_path / "data")
    first.open()
    with pytest.raises(StackError, match="process"):
        second.open()
    first.close()
    second.open()
    second.close()


def test_the_keys_in_it_are_its_owners_alone(tmp_path: Path) -> None:
    directory = DataDir(tmp_path / "stack", min_free_mb=0)
    directory.open()
    try:
        assert stat.S_IMODE(directory.path.stat().st_mode) == 0o700
    finally:
        directory.close()
