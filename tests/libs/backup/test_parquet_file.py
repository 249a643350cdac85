"""`tally export --format parquet`: columns for analysis."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from libs.backup import parquet_file
from tests.libs.backup.filled_deployment import ODD, Site, complaint, files_of, modes_of
from tests.libs.backup.test_exporter import as_if_killed
from tests.support.builders import pseudonym


def rows_of(file: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pyarrow.parquet.read_table(file).to_pylist()
    return rows


def value_of(row: dict[str, Any]) -> bytes:
    value: bytes = row["value"] if row["event"] is None else row["event"].encode()
    return value


async def test_it_reads_back_as_the_log(filled: Site, tmp_path: Path) -> None:
    await filled.export(tmp_path / "out", "--format", "parquet")
    for name, records in (await filled.records()).items():
        rows = rows_of(tmp_path / "out" / f"{name}.parquet")
        assert [row["offset"] for row in rows] == [record.offset for record in records]
        times = [datetime.fromtimestamp(record.timestamp_ms / 1000, UTC) for record in records]
        assert [row["time"] for row in rows] == times
        assert [value_of(row) for row in rows] == [record.value for record in records]
    rows = rows_of(tmp_path / "out" / "votes-00000.parquet")
    assert [row["type"] for row in rows[4:10]] == [None] * len(ODD)
    expected = {
        "topic": "votes",
        "partition": 0,
        "type": "VoteCast",
        "contest": "final",
        "voter": pseudonym("voter"),
        "vote_id": "more",
        "source": "c-paid",
        "participants": ["b"],
        "counts": [3],
    }
    assert {name: rows[2][name] for name in expected} == expected
    assert (rows[-2]["source"], rows[-2]["participants"], rows[-2]["counts"]) == ("sms", ["x"], [4])
    (bought,) = [
        row
        for number in range(2)
        for row in rows_of(tmp_path / "out" / f"purchases-0000{number}.parquet")
        if row["type"] == "PurchaseRecorded" and row["contest"]
    ]
    assert (bought["contest"], bought["participants"], bought["counts"]) == ("c1", ["p1"], [3])


async def test_a_killed_export_goes_on_to_the_same_bytes(
    filled: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_file, "ROW_GROUP", 3)
    out = tmp_path / "out"
    await filled.export(out, "--format", "parquet", "final")
    whole = files_of(out)
    assert pyarrow.parquet.read_metadata(out / "votes-00000.parquet").num_row_groups == 2
    as_if_killed(out, "votes-00000.parquet", "votes-00001.parquet")
    (out / "votes-00000.parquet").rename(out / "votes-00000.parquet.part")
    summary = await filled.export(out, "--format", "parquet", "final")
    assert files_of(out) == whole
    assert summary["records"]["votes"] == 6


async def test_without_pyarrow_it_says_what_to_install(
    filled: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = await filled.tally("export", "--to", tmp_path / "out", "--format", "parquet")
    assert result.exit_code == 2
    assert "pip install 'tallykeeper[parquet]'" in complaint(result)
    assert not (tmp_path / "out").exists()


async def test_one_file_has_all_parts_and_is_no_secret_keeper(filled: Site, tmp_path: Path) -> None:
    summary = await filled.export(tmp_path / "all.parquet", "final")
    assert (summary["importable"], summary["secrets"]) == (False, 0)
    await filled.export(tmp_path / "all.ndjson", "final")
    rows, lines = rows_of(tmp_path / "all.parquet"), (tmp_path / "all.ndjson").read_bytes().splitlines()
    places = [(row["topic"], row["partition"], row["offset"]) for row in rows]
    assert [tuple(json.loads(line)[name] for name in ("topic", "partition", "offset")) for line in lines] == places
    assert len(places) == 9
    assert modes_of(tmp_path) == {"all.ndjson": 0o600, "all.parquet": 0o600}
    again = await filled.tally("export", "--to", tmp_path / "all.ndjson", "final")
    assert (again.exit_code, "exists already" in complaint(again)) == (2, True)
