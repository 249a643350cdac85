"""The query of the operator's guide over an export's files, run by DuckDB."""

import re
from pathlib import Path
from typing import Any, Final

import duckdb

from libs.contracts.codec import vote_codec
from libs.contracts.log_records import LogRecord
from libs.contracts.ndjson_codec import to_line
from libs.tally.events import Event, Fence, LogCreated, VoteCast
from tests.support.builders.contests import a_cast, a_removal

GUIDE: Final = Path(__file__).parents[3] / "deploy/guides/operator.md"
PLACE: Final = "before-show"


def exported(directory: Path, partition: int, *values: Event | bytes) -> None:
    """Write the records of a partition as an export does."""
    with (directory / f"votes-{partition}.ndjson").open("wb") as file:
        for offset, value in enumerate(values):
            content = value if isinstance(value, bytes) else vote_codec.encode(value)
            file.write(to_line("votes", partition, LogRecord(offset, 0, content, b"voter")))


def a_cast_of(form: str, *choices: tuple[str, int]) -> VoteCast:
    return a_cast(form=form, choices=choices, contest="show")


def rows(query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        return connection.execute(query).fetchall()


def test_the_guide_s_query_counts_the_votes_of_every_kind_by_participants_that_can_be_joined(
    tmp_path: Path,
) -> None:
    (query,) = re.findall(r"^```sql\n(.*?)^```$", GUIDE.read_text(), flags=re.MULTILINE | re.DOTALL)
    exported(tmp_path, 0, LogCreated("log"), a_cast_of("plain", ("ann", 3)), a_removal(), b"no\nJSON")
    exported(
        tmp_path,
        1,
        a_cast_of("ballot", ("bob", 12), ("ann", 10), ('"', 8)),
        a_cast_of("rating", ("bob", 1)),
        Fence(3),
    )
    assert query.count(f"'{PLACE}/") == 1
    counted = query.replace(PLACE, str(tmp_path)).rstrip().rstrip(";")
    assert rows(counted) == [("show", '"', 1, 8), ("show", "ann", 2, 13), ("show", "bob", 2, 13)]
    joined = f"SELECT votes FROM ({counted}) JOIN (VALUES ('ann')) AS titles(key) ON participant = key"
    assert rows(joined) == [(13,)]
