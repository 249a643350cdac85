"""The data directory: only files created by tally are deleted."""

import os
import stat
from pathlib import Path

import pytest

from libs.local_stack import stack_json
from libs.local_stack.data_dir import DataDir
from libs.local_stack.errors import StackError
from tests.support.other_user import NOBODY, as_root


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
    assert stat.S_IMODE(again.path.stat().st_mode) == 0o700, "the keys in it are its owner's alone"
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


@as_root
def test_a_directory_prepared_by_another_user_is_refused_and_nothing_in_it_followed(tmp_path: Path) -> None:
    precious, data = tmp_path / "precious", tmp_path / "data"
    precious.write_text("mine")
    data.mkdir()
    (data / "tally.lock").symlink_to(precious)
    (data / "objects").mkdir()
    (data / "objects").chmod(0o777)
    with pytest.raises(StackError, match="symbolic link"):
        DataDir(data).open()
    (data / "tally.lock").unlink()
    (data / "tally.lock").touch()
    for theirs in (data, data / "objects"):
        os.chown(theirs, NOBODY, NOBODY)
        with pytest.raises(StackError, match="another user") as refused:
            DataDir(data).open()
        assert refused.value.code == "data_dir_not_private"
        os.chown(theirs, 0, 0)
    assert precious.read_text() == "mine"


@as_root
def test_a_stack_described_by_another_user_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text('{"kafka": "theirs:1", "valkey": "redis://theirs:1/0"}')
    os.chown(tmp_path / "stack.json", NOBODY, NOBODY)
    with pytest.raises(StackError, match="another user"):
        stack_json.read(tmp_path)


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    first, second = DataDir(tmp_path / "data"), DataDir(tmp_path / "data")
    first.open()
    with pytest.raises(StackError, match="process"):
        second.open()
    first.close()
    second.open()
    second.close()
