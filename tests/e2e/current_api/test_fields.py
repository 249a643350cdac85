"""Every field of the specification's tables: set, unchanged, changed, cleared, and rejected if invalid.

Many fields are combined in one request where that proves the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice, takewhile
from typing import Any

import pytest

from libs.catalogue.resource_table import RESOURCES
from libs.contracts.validation import MAX_PROBLEMS
from tests.e2e.current_api.records import Document, Records, at, leaves, values_of
from tests.e2e.current_api.specification import FIELDS, ITEMS, OURS, PART, SERVER, Kind

OWN = {"key", "created", "updated", "upload_url"}


@dataclass(frozen=True)
class Proof:
    """Records as they were read after the first values, after the second, cleared, and made of nothing."""

    first: Document
    second: Document
    cleared: Document
    cut: Document
    """Every member of its own cleared at once, objects and lists included."""
    fresh: Document
    refusals: dict[str, list[tuple[Any, list[str]]]]
    """By path: wrong values, each with the pointers of its refusal."""


async def prove(records: Records, resource: str) -> Proof:
    first_values = records.body(resource, values_of(resource, lambda kind: kind.first))
    made = await records.made(resource, first_values)
    first = await records.read(resource, made["key"])
    assert first == made
    second_values = records.body(resource, values_of(resource, lambda kind: kind.second))
    changed = await records.patch(resource, made["key"], second_values)
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


async def _refusals(records: Records, resource: str, key: str) -> dict[str, list[tuple[Any, list[str]]]]:
    found: dict[str, list[tuple[Any, list[str]]]] = {}
    for values in _rounds(resource):
        body = records.body(resource, values)
        for answer in (await records.create(resource, body), await records.patch(resource, key, body)):
            errors = answer.json()["errors"] if answer.status_code == 422 else []
            for path, value in values.items():
                found.setdefault(path, []).append((value, [error["pointer"] for error in errors]))
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


@pytest.fixture(scope="module", params=FIELDS)
def resource(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
async def proof(records: Records, resource: str) -> Proof:
    return await prove(records, resource)


async def test_each_field_is_kept_and_changed(records: Records, proof: Proof, resource: str) -> None:
    for path, kind in leaves(resource):
        assert at(proof.first, path) == records.named(kind.first), path
        assert at(proof.second, path) == records.named(kind.changed(is_in_list="*" in path)), path


async def test_each_field_that_is_cleared_reads_as_null_or_its_default(proof: Proof, resource: str) -> None:
    for path, kind in leaves(resource):
        if kind.required:
            assert at(proof.cleared, path), path
        else:
            assert at(proof.cleared, path) == kind.unset != at(proof.first, path), path


async def test_objects_and_lists_are_cleared_as_a_whole(proof: Proof, resource: str) -> None:
    kept = {
        path: at(proof.cut, path) for path, kind in FIELDS[resource].items() if kind.required and "/" not in path
    }
    assert _without_times(proof.cut) == _without_times(proof.fresh | kept)


async def test_each_field_that_is_wrong_is_refused_by_its_pointer(proof: Proof, resource: str) -> None:
    written = {path: kind for path, kind in FIELDS[resource].items() if kind != SERVER}
    assert written
    for path, kind in written.items():
        refusals = proof.refusals[path]
        assert len(refusals) == 2 * (len(kind.wrong) + len(kind.dangling) + kind.required), path
        where = f"/{path}/".replace("*", "0")
        for value, pointers in refusals:
            assert any(f"{pointer}/".startswith(where) for pointer in pointers), (path, value, pointers)


async def test_a_record_has_the_fields_of_the_table_and_no_others(proof: Proof, resource: str) -> None:
    """But for those that only the legacy generation names, and those that this service adds."""
    ours = OURS.get(resource, frozenset())
    for record in (proof.first, proof.second):
        assert set(_names(resource, record)) - _legacy(resource) == set(FIELDS[resource]) | ours


async def test_unknown_members_are_refused_at_every_level(records: Records, resource: str) -> None:
    levels = [""] + [f"{path}/" for path, kind in FIELDS[resource].items() if kind == PART]
    levels += [f"{path}/*/" for path, kind in FIELDS[resource].items() if kind == ITEMS]
    if resource == "conventions":
        levels.remove("style/")  # free-form but for four members
    key = (await records.made(resource, records.body(resource, {})))["key"]
    for value in (1, None):
        body = records.body(resource, {f"{level}stray": value for level in levels})
        for answer in (await records.create(resource, body), await records.patch(resource, key, body)):
            assert answer.status_code == 422
            wrong = {error["pointer"] for error in answer.json()["errors"]}
            assert wrong == {f"/{level}stray".replace("*", "0") for level in levels}


async def test_a_record_that_was_read_can_be_sent_back(records: Records, proof: Proof, resource: str) -> None:
    for record in (proof.second, proof.fresh):
        again = await records.made(resource, record)
        assert _without_times(again) == _without_times(record)
        patched = await records.patch(resource, again["key"], again)
        assert patched.status_code == 200, patched.text
        assert _without_times(patched.json()) == _without_times(again)


def _without_times(record: Any) -> Any:
    """And without keys, which the server gives too; `key` in a free-form object stays."""
    if isinstance(record, list):
        return [_without_times(item) for item in record]
    if not isinstance(record, dict):
        return record
    own = OWN if "updated" in record else set()
    return {name: _without_times(value) for name, value in record.items() if name not in own}


def _names(resource: str, record: Document, prefix: str = "") -> Iterator[str]:
    """Every member, by its pointer; free-form values are not parsed."""
    for name, value in record.items():
        path = prefix + name
        yield path
        kind = FIELDS[resource].get(path)
        if kind == PART:
            yield from _names(resource, value, f"{path}/")
        elif kind == ITEMS:
            yield from _names(resource, value[0], f"{path}/*/")


def _legacy(resource: str) -> set[str]:
    schema = RESOURCES[resource].schema.model_json_schema()
    definitions = schema.get("$defs", {})

    def members(part: Document, prefix: str) -> Iterator[str]:
        part = definitions.get(part.get("$ref", "").rpartition("/")[2], part)
        for name, member in part.get("properties", {}).items():
            if member.get("description", "").startswith("Legacy"):
                yield prefix + name
            for inner in (member, *member.get("anyOf", ())):
                yield from members(inner, f"{prefix}{name}/")
                yield from members(inner.get("items", {}), f"{prefix}{name}/*/")

    return set(members(schema, ""))
