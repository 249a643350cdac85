"""The tables of `deploy/guides/limits.md` are those of `libs/contracts/limits.py`.

TALLY_UPDATE_DOCUMENTS=1 writes them.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from libs.catalogue.resource_table import RESOURCES
from libs.contracts.limits import CONTEST_BYTES, KINDS, FreeFormLimit, Limit, ListLimit, TextLimit, record_bytes
from libs.web.documents.openapi import MAX_BYTES
from tests.support.generated_files import updated
from tests.support.models.openapi import read_tracked

GUIDE: Final = Path(__file__).parents[2] / "deploy/guides/limits.md"
BEGIN: Final = "## Texts\n"


def sizes(limit: Limit) -> str:
    match limit:
        case TextLimit(visible=0):
            return f"{limit.code_points:,}"
        case TextLimit():
            return f"{limit.visible:,} visible characters, {limit.code_points:,} code points"
        case ListLimit():
            return f"{limit.items:,}"
        case FreeFormLimit():
            return f"{limit.values:,} JSON values, {limit.depth} levels, {limit.json_bytes:,} bytes as JSON"
    raise AssertionError(limit)


def table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def records() -> Iterator[Sequence[str]]:
    by_size = sorted(RESOURCES, key=lambda name: (-record_bytes(name), name))
    for size, names in groupby(by_size, key=record_bytes):
        yield ", ".join(f"`{name}`" for name in names), f"{size:,}"
    yield "a contest with its participants and vote sources", f"{CONTEST_BYTES:,}"


def bodies() -> Iterator[Sequence[str]]:
    found: dict[int, list[str]] = {}
    for path, methods in read_tracked()["paths"].items():
        for method, operation in methods.items():
            if "requestBody" in operation:
                found.setdefault(operation["requestBody"][MAX_BYTES], []).append(f"`{method.upper()} {path}`")
    for size, routes in sorted(found.items()):
        yield f"{size:,}", ", ".join(sorted(routes))


def generated() -> str:
    parts = [
        f"## {heading}\n\n{table(['what', 'at most'], ((kind.meaning, sizes(kind)) for kind in kinds))}"
        for heading, kinds in KINDS.items()
    ]
    parts.append(f"## Records\n\n{table(['records of', 'bytes as JSON, by what clients write'], records())}")
    parts.append(f"## Bodies\n\n{table(['bytes', 'requests'], bodies())}")
    return "\n".join(parts)


def test_the_guide_has_the_limits_of_the_table_and_the_bodies_of_the_document() -> None:
    before, _, _ = GUIDE.read_text().partition(BEGIN)
    text = before + generated()
    assert updated(GUIDE, text) == text
