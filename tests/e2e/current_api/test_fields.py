"""Every field of the specification's tables: set, unchanged, changed, cleared, and rejected if invalid."""

from collections.abc import Iterator
from typing import Any

import pytest

from libs.catalogue.resource_table import RESOURCES
from tests.e2e.current_api.field_checks import Proof, prove
from tests.e2e.current_api.member_values import ITEMS, PART, SERVER
from tests.e2e.current_api.records import Document, Records, at, leaves
from tests.e2e.current_api.specification import FIELDS, OURS

OWN = {"key", "created", "updated", "upload_url"}


@pytest.fixture(scope="module")
def proofs() -> dict[str, Proof]:
    return {}


@pytest.fixture
async def proof(records: Records, proofs: dict[str, Proof], resource: str) -> Proof:
    if resource not in proofs:
        proofs[resource] = await prove(records, resource)
    return proofs[resource]


@pytest.mark.parametrize("resource", FIELDS)
async def test_each_field_is_kept_and_changed(records: Records, proof: Proof, resource: str) -> None:
    for path, kind in leaves(resource):
        assert at(proof.first, path) == records.named(kind.first), path
        assert at(proof.second, path) == records.named(kind.changed(is_in_list="*" in path)), path


@pytest.mark.parametrize("resource", FIELDS)
async def test_each_field_that_is_cleared_reads_as_null_or_its_default(proof: Proof, resource: str) -> None:
    for path, kind in leaves(resource):
        if kind.required:
            assert at(proof.cleared, path), path
        else:
            assert at(proof.cleared, path) == kind.unset != at(proof.first, path), path


@pytest.mark.parametrize("resource", FIELDS)
async def test_objects_and_lists_are_cleared_as_a_whole(proof: Proof, resource: str) -> None:
    kept = {
        path: at(proof.cut, path) for path, kind in FIELDS[resource].items() if kind.required and "/" not in path
    }
    assert _without_times(proof.cut) == _without_times(proof.fresh | kept)


@pytest.mark.parametrize("resource", FIELDS)
async def test_each_field_that_is_wrong_is_refused_by_its_pointer(proof: Proof, resource: str) -> None:
    written = {path: kind for path, kind in FIELDS[resource].items() if kind != SERVER}
    assert written
    for path, kind in written.items():
        refusals = proof.refusals[path]
        assert len(refusals) == 2 * (len(kind.wrong) + len(kind.dangling) + kind.required), path
        where = f"/{path}/".replace("*", "0")
        for refusal in refusals:
            assert any(f"{pointer}/".startswith(where) for pointer in refusal.pointers), (path, refusal)


@pytest.mark.parametrize("resource", FIELDS)
async def test_a_record_has_the_fields_of_the_table_and_no_others(proof: Proof, resource: str) -> None:
    """But for those that only the legacy generation names, and those that this service adds."""
    ours = OURS.get(resource, frozenset())
    for record in (proof.first, proof.second):
        assert set(_names(resource, record)) - _legacy(resource) == set(FIELDS[resource]) | ours


@pytest.mark.parametrize("resource", FIELDS)
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


@pytest.mark.parametrize("resource", FIELDS)
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
