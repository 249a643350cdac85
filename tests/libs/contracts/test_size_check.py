"""Values larger than their limits: refused in a write, unless they were stored as large."""

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from libs.contracts.limits import (
    CONTENT,
    KINDS,
    OBJECT,
    TAG,
    TEXTS,
    TITLE,
    FreeFormLimit,
    ListLimit,
    TextLimit,
    visible_characters,
)
from libs.contracts.size_check import excesses
from libs.contracts.validation import ValidationFailed, checked

MARK = "\u0301"


class Item(BaseModel):
    id: str = ""
    title: Annotated[str, TITLE] | None = None


class Document(BaseModel):
    title: Annotated[str, TITLE] | None = None
    tags: Annotated[list[Annotated[str, TAG]], TEXTS] = []
    items: list[Item] = []
    by_name: dict[str, Annotated[str, TAG]] = {}
    data: Annotated[dict[str, Any], OBJECT] = {}
    parts: Annotated[list[Any], CONTENT] | None = None
    named: Annotated[str, TAG] = Field("", alias="register")


def pointers(body: Any, before: Any = None) -> list[str]:
    return ["/".join(map(str, steps)) for steps, _ in excesses(Document, body, before)]


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"title": "x" * 301}, "title"),
        ({"title": "a" + MARK * 1_200}, "title"),
        ({"tags": ["x"] * 201}, "tags"),
        ({"tags": ["x", "x" * 2_001]}, "tags/1"),
        ({"items": [{}, {"title": "x" * 301}]}, "items/1/title"),
        ({"by_name": {"a": "x" * 2_001}}, "by_name/a"),
        ({"data": {"a": [0] * 5_000}}, "data"),
        ({"data": {"a": "x" * 65_536}}, "data"),
        ({"data": nested(33)}, "data"),
        ({"parts": [0] * 20_001}, "parts"),
        ({"register": "x" * 2_001}, "register"),
    ],
)
def test_a_value_larger_than_its_limit_is_named(body: dict[str, Any], place: str) -> None:
    assert pointers(body) == [place]


@pytest.mark.parametrize(
    "body",
    [
        {"title": "x" * 300, "tags": ["x" * 2_000] * 200, "data": {"a": [0] * 4_997}},
        {"title": ("a" + MARK * 3) * 300},
        {"title": None, "tags": "no list", "items": {"no": "list"}, "by_name": [1], "data": 7, "parts": None},
        {"data": nested(32), "unknown": "x" * 1_000_000},
        None,
        ["x"],
    ],
)
def test_values_within_their_limits_and_of_other_types_are_left_to_the_schema(body: Any) -> None:
    assert pointers(body) == []


def test_a_family_is_as_many_visible_characters_as_it_has_people() -> None:
    assert visible_characters("\U0001f468\u200d\U0001f469\u200d\U0001f467") == 3
    assert visible_characters("e\u0301a\u20dd") == 2


def test_what_is_stored_already_may_be_written_again_and_shrink_but_not_grow() -> None:
    before = {"title": "x" * 400, "tags": ["t"] * 300, "items": [{"id": "a", "title": "y" * 400}, {"id": "b"}]}
    assert pointers(before, before) == []
    assert pointers(before | {"title": "x" * 399, "tags": ["t"] * 299}, before) == []
    assert pointers(before | {"title": "x" * 401, "tags": ["t"] * 301}, before) == ["title", "tags"]
    other_order = [{"id": "b"}, {"id": "a", "title": "y" * 400}]
    assert pointers({"items": other_order}, before) == []
    assert pointers({"items": [{"id": "b", "title": "y" * 400}]}, before) == ["items/0/title"]


def test_the_error_names_the_limit_and_the_size() -> None:
    with pytest.raises(ValidationFailed, match="/title: must have at most 300 visible characters, not 301"):
        checked(Document, {"title": "x" * 301})
    with pytest.raises(ValidationFailed, match="at most 1,200 Unicode code points, not 70,001"):
        checked(Document, {"title": "a" + MARK * 70_000})


def test_every_kind_of_limit_is_in_the_table_of_kinds() -> None:
    from libs.contracts import limits  # noqa: PLC0415

    kinds = TextLimit | ListLimit | FreeFormLimit
    named = {name for name, value in vars(limits).items() if isinstance(value, kinds)}
    listed = [kind for several in KINDS.values() for kind in several]
    assert {name for name in named if getattr(limits, name) in listed} == named
