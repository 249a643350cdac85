"""Files and directories that another user made or prepared are not used."""

import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from libs.storage.object_store import open_store
from libs.storage.private_files import (
    NotPrivate,
    open_private,
    own_directory,
    read_private,
    remembered_secret,
    write_private,
)
from tests.support.other_user import NOBODY, as_root

pytestmark = pytest.mark.pure


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def adopts(path: Path) -> bool:
    try:
        with own_directory(path):
            return True
    except NotPrivate:
        return False


def test_a_new_directory_and_an_empty_one_of_ones_own_become_private(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    for path in (tmp_path / "new" / "nested", tmp_path / "open"):
        assert adopts(path)
        assert mode_of(path) == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o722])
def test_a_directory_in_which_others_could_plant_files_is_refused_each_time(tmp_path: Path, mode: int) -> None:
    (tmp_path / "secrets.json.part").touch()
    tmp_path.chmod(mode)
    for _ in range(2):
        assert not adopts(tmp_path)
        if mode & stat.S_IWOTH:
            with pytest.raises(NotPrivate):
                open_store(str(tmp_path))
    assert mode_of(tmp_path) == mode


@as_root
def test_a_directory_that_is_another_users_or_has_a_file_of_one_is_refused(tmp_path: Path) -> None:
    theirs = tmp_path / "objects"
    theirs.mkdir()
    os.chown(theirs, NOBODY, NOBODY)
    assert not adopts(tmp_path)
    assert not adopts(theirs)
    with pytest.raises(NotPrivate):
        open_store(str(theirs))


def test_a_link_to_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert not adopts(tmp_path / "link")


def test_a_link_is_not_followed_and_a_second_name_not_written_to(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / "symbolic").symlink_to(precious)
    (tmp_path / "hard").hardlink_to(precious)
    for name in ("symbolic", "hard"):
        with pytest.raises(NotPrivate):
            open_private(tmp_path / name)
        write_private(tmp_path / name, "replaced")
    assert precious.read_text() == "mine"
    assert read_private(tmp_path / "symbolic") == "replaced"


@pytest.mark.parametrize("plant", ["symbolic", "hard", "open"])
def test_a_planted_partial_file_receives_nothing(tmp_path: Path, plant: str) -> None:
    theirs, partial = tmp_path / "theirs", tmp_path / "secrets.json.part"
    theirs.touch()
    if plant == "symbolic":
        partial.symlink_to(theirs)
    elif plant == "hard":
        partial.hardlink_to(theirs)
    else:
        partial.touch()
        partial.chmod(0o666)
    with partial.open("rb") as held_open:
        write_private(tmp_path / "secrets.json", b"secret")
        assert held_open.read() == b""
    assert theirs.read_bytes() == b""
    assert mode_of(tmp_path / "secrets.json") == 0o600


@as_root
def test_a_secret_of_another_user_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("known")
    os.chown(tmp_path / "password", NOBODY, NOBODY)
    with pytest.raises(NotPrivate):
        remembered_secret(tmp_path / "password")


async def test_objects_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    (tmp_path / "objects").mkdir(mode=0o755)
    store = open_store(str(tmp_path / "objects"))
    await store.replace("secrets/a", b"1")
    await store.put_if_absent("secrets/upload addresses", b"2")

    async def chunks() -> AsyncIterator[bytes]:
        yield b"3"

    await store.write("worlds/b", chunks())
    files = [path for path in (tmp_path / "objects").rglob("*") if path.is_file()]
    assert len(files) == 3
    assert {mode_of(path) for path in files} == {0o600}
    assert mode_of(tmp_path / "objects") == 0o700
