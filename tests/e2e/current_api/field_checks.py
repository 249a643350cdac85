"""Checks a resource's fields by requests; combines many fields in one request where that proves the same."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice, takewhile
from typing import Any

from libs.contracts.validation import MAX_PROBLEMS
from tests.e2e.current_api.member_values import ITEMS, PART, Kind
from tests.e2e.current_api.records import Document, Records, leaves, values_of
from tests.e2e.current_api.specification import FIELDS


@dataclass(frozen=True)
class Refusal:
    """One value that was refused, or was not."""

    value: Any
    pointers: list[str]


@dataclass(frozen=True)
class Proof:
    """Records as they were read after the first values, after the second, cleared, and made of nothing."""

    first: Document
    second: Document
    cleared: Document
    cut: Document
    """Every member of its own cleared at once, objects and lists included."""
    fresh: Document
    refusals: dict[str, list[Refusal]]


async def prove(records: Records, resource: str) -> Proof:
    first_values = records.body(resource, values_of(resource, lambda kind: kind.first))
    made = await records.made(resource, first_values)
    first = await records.read(resource, made["key"])
    assert first == made
    changed = await records.patch(
        resource, made["key"], records.body(resource, values_of(resource, lambda kind: kind.second))
    )
    assert changed.status_code == 200, changed.text
    second = await records.read(resource, made["key"])
    assert second == changed.json()
    nulls = {path: None for path, kind in leaves(resource) if not kind.required}
    cleared = await records.patch(resource, made["key"], records.body(resource, nulls))
    assert cleared.status_code == 200, cleared.text
    other = await records.made(resource, first_values)
    tops = {path: None for path, kind in FIELDS[resource].items() if "/" not in path and not kind.required}
    cut = await records.patch(resource, other["key"], tops)
    assert cut.status_code == 200, cut.text
    fresh = await records.made(resource, records.body(resource, {}))
    refusals = await _refusals(records, resource, made["key"])
    return Proof(first, second, cleared.json(), cut.json(), fresh, refusals)


async def _refusals(records: Records, resource: str, key: str) -> dict[str, list[Refusal]]:
    found: dict[str, list[Refusal]] = {}
    for values in _rounds(resource):
        body = records.body(resource, values)
        for answer in (await records.create(resource, body), await records.patch(resource, key, body)):
            pointers = []
            if answer.status_code == 422:
                pointers = [error["pointer"] for error in answer.json()["errors"]]
            for path, value in values.items():
                found.setdefault(path, []).append(Refusal(value, pointers))
    return found


def _rounds(resource: str) -> list[dict[str, Any]]:
    """Bodies in which every value is wrong, and none hides another: by the depth of what they stand in."""
    rows = FIELDS[resource]
    simple = dict(leaves(resource))
    groups = [simple]
    for depth in takewhile(lambda n: any(path.count("/") >= n for path in rows), count()):
        groups.append(
            {path: kind for path, kind in rows.items() if kind in (PART, ITEMS) and path.count("/") == depth}
        )
    rounds = [_nth(group, n, "wrong") for group in groups for n in range(9)]
    rounds += [_nth(simple, n, "dangling") for n in range(9)]
    rounds.append({path: None for path, kind in simple.items() if kind.required})
    return [part for values in rounds for part in _parts(values)]


def _parts(values: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """An answer names a limited number of problems, and a value may cause two."""
    items = iter(values.items())
    while part := dict(islice(items, MAX_PROBLEMS // 2)):
        yield part


def _nth(kinds: dict[str, Kind], number: int, name: str) -> dict[str, Any]:
    values = {path: getattr(kind, name) for path, kind in kinds.items()}
    return {path: wrong[number] for path, wrong in values.items() if number < len(wrong)}
