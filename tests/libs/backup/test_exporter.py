"""`tally export`: complete up to fixed end offsets, despite any interruptions."""

import json
import os
from pathlib import Path

import pytest

from libs.backup.exporter import export_directory
from libs.backup.manifest import open_export
from libs.contracts.codec import vote_codec
from libs.contracts.log_records import LogRecord
from libs.contracts.ndjson_codec import from_line, to_line
from tests.libs.backup.filled_deployment import ODD, Site, complaint, edited, files_of
from tests.support.builders.contests import a_cast
from tests.support.other_user import NOBODY, as_root


def records_in(directory: Path) -> dict[str, list[LogRecord]]:
    found = {name: list(map(from_line, data.splitlines(True))) for name, data in files_of(directory).items()}
    return {name.removesuffix(".ndjson"): records for name, records in found.items()}


@pytest.mark.parametrize(
    "value", [*ODD, b'{"type":"Fence","event":{"event":1}}', b"1e400", b"[]", b'",\\"event\\":"']
)
@pytest.mark.parametrize("key", [None, b"", b"voter", b'",\xc3\xa9"event":', b"\xff"])
def test_a_line_gives_the_record_back_to_the_byte(key: bytes | None, value: bytes) -> None:
    record = LogRecord(2**40, 1_790_000_000_123, value, key)
    line = to_line("votes", 3, record)
    assert from_line(line) == record
    assert line.index(b"\n") == len(line) - 1
    assert json.loads(line)["offset"] == 2**40


async def test_nothing_is_lost_not_even_what_is_no_event(filled: Site, tmp_path: Path) -> None:
    summary = await filled.export(tmp_path / "out")
    assert records_in(tmp_path / "out") == await filled.records()
    counts = {"purchases": 5, "votes": 16, "catalogue": 11, "test-catalogue": 4}  # with each partition's first
    assert summary["records"] == counts
    values = [record.value for record in records_in(tmp_path / "out")["votes-00000"]]
    assert values[4:10] == ODD


async def test_secrets_come_along_and_only_the_owner_reads_any_of_it(filled: Site, tmp_path: Path) -> None:
    result = await filled.tally("export", "--to", tmp_path / "out")
    assert result.exit_code == 0
    assert "with 4 secrets" in result.stdout
    secrets = json.loads((tmp_path / "out" / "secrets.json").read_text())
    names = "accounts/a1", "contests/final", "server/receipts", "store"
    assert sorted(secrets) == [f"secrets/{name}" for name in names]
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "out").iterdir()} == {0o600}


@as_root
@pytest.mark.parametrize("planted", ["secrets.json.part", "manifest.json.part", "votes-00000.ndjson"])
async def test_an_export_into_a_directory_prepared_by_another_user_is_refused(
    filled: Site, tmp_path: Path, planted: str
) -> None:
    out, theirs = tmp_path / "out", tmp_path / "theirs"
    theirs.touch()
    out.mkdir()
    (out / planted).symlink_to(theirs)
    for path in (out, theirs, out / planted):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    result = await filled.tally("export", "--to", out)
    assert (result.exit_code, "another user" in complaint(result)) == (2, True)
    assert theirs.read_bytes() == b""


async def test_a_killed_export_goes_on_to_the_same_bytes_though_votes_come_in(
    growing: Site, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    await growing.export(out)
    whole = files_of(out)
    as_if_killed(out, "votes-00000.ndjson", "votes-00001.ndjson")
    await growing.append("votes", [vote_codec.encode(a_cast(vote_id="too late"))])
    summary = await growing.export(out)
    assert files_of(out) == whole
    assert open_export(out).complete
    assert await growing.export(out) == summary


def as_if_killed(out: Path, torn: str, unbegun: str) -> None:
    """In the middle of a line, by a loss of power, with a file still to come and the manifest of the beginning."""
    (out / torn).write_bytes((out / torn).read_bytes()[:-100] + bytes(4096))
    (out / unbegun).unlink()
    with edited(out) as manifest:
        manifest |= {"complete": False, "ended": None}
        for part in manifest["parts"]:
            part["records"] = part["sha256"] = None


async def test_an_export_of_a_log_recreated_since_is_not_resumed(filled: Site, tmp_path: Path) -> None:
    await filled.export(tmp_path / "out")
    as_if_killed(tmp_path / "out", "votes-00000.ndjson", "votes-00001.ndjson")
    with edited(tmp_path / "out") as manifest:
        manifest["parts"][0]["log_id"] = "of the former log"
    result = await filled.tally("export", "--to", tmp_path / "out")
    assert (result.exit_code, "was created again" in complaint(result)) == (2, True)


async def test_two_exports_at_once_do_not_share_a_directory(filled: Site, tmp_path: Path) -> None:
    with export_directory(tmp_path / "out"):
        result = await filled.tally("export", "--to", tmp_path / "out")
    assert (result.exit_code, "Another export" in complaint(result)) == (2, True)


async def test_a_directory_of_other_things_is_left_alone(filled: Site, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("two years of work")
    result = await filled.tally("export", "--to", tmp_path / "out")
    assert result.exit_code == 2
    assert "is not empty" in complaint(result)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.txt"]
