"""Uploaded files and pictures come along with an export, below the name of the target's namespace."""

from pathlib import Path

from libs.contracts.topics import legacy_test_namespace
from tests.libs.backup.filled_deployment import Site, complaint, edited

PICTURE, EMPTY = "images/a1/i/0f/original", "files/a1/f/empty"


async def test_files_and_pictures_come_along_below_the_target_s_own_name(
    filled: Site, target: Site, tmp_path: Path
) -> None:
    done = await filled.tally("export", "--to", tmp_path / "out")
    assert "files and pictures: 2" in done.stdout
    await target.import_from(tmp_path / "out", "--execute")
    namespace = target.stack.namespace
    names = f"worlds/{namespace}/{PICTURE}", f"worlds/{legacy_test_namespace(namespace)}/{EMPTY}"
    assert await target.store.names("worlds") == sorted(names)
    assert [await target.store.get(name) for name in names] == [b"a picture", b""]


async def test_an_export_may_leave_them_out(filled: Site, tmp_path: Path) -> None:
    assert (await filled.export(tmp_path / "out", "--no-files"))["files"] == 0
    assert not list((tmp_path / "out").glob("object-*"))


async def test_what_an_interrupted_export_lacks_is_written_by_the_next(growing: Site, tmp_path: Path) -> None:
    out = tmp_path / "out"
    await growing.export(out)
    with edited(out) as manifest:
        manifest["complete"] = False
        for each in manifest["objects"]:
            each["sha256"] = None
            (out / each["file"]).write_bytes(b"half")
    gone = f"worlds/{growing.stack.namespace}/{PICTURE}"
    await growing.store.delete(gone)
    assert (await growing.export(out))["files"] == 1
    [file] = out.glob("object-*")
    assert file.read_bytes() == b""


async def test_a_damaged_file_and_a_name_that_leads_elsewhere_are_refused(
    filled: Site, target: Site, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    await filled.export(out)
    whole = (out / "manifest.json").read_text()
    outside = "../tally/images/a", "images/../../x", "secrets/server/receipts"
    for name in (*outside, "/images/a", "images//a", "images"):
        with edited(out) as manifest:
            manifest["objects"][0]["name"] = name
        refused = await target.tally("import", "--from", out, "--execute")
        assert "neither a file nor an image" in complaint(refused), name
    (out / "manifest.json").write_text(whole)
    [picture] = [file for file in out.glob("object-*") if file.read_bytes()]
    picture.write_bytes(b"another one")
    assert "is damaged" in complaint(await target.tally("import", "--from", out, "--execute"))
    assert not await target.store.names("")
