"""The JSON form of results: the members of any dataclass."""

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import NamedTuple

import pytest

from libs.contracts.ndjson_codec import HIDDEN, json_form


class Colour(StrEnum):
    RED = "red"


class Number(IntEnum):
    ONE = 1


class Pair(NamedTuple):
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Inner:
    seconds: float
    value: bytes


@dataclass(frozen=True, slots=True)
class Outer:
    inner: Inner
    pairs: dict[int, Pair]
    colours: set[Colour]
    file: Path
    secret: str = field(default="s", metadata=HIDDEN)
    _own: int = 0

    @property
    def is_good(self) -> bool:
        return True

    def method(self) -> int:
        return 1


def test_fields_and_properties_are_members_and_hidden_and_private_ones_are_not() -> None:
    found = json_form(Outer(Inner(1.23456, b"\xff"), {3: Pair(1, 2)}, {Colour.RED}, Path("a/b")))
    assert found == {
        "inner": {"seconds": 1.235, "value": "/w=="},
        "pairs": {"3": {"before": 1, "after": 2}},
        "colours": ["red"],
        "file": "a/b",
        "is_good": True,
    }


def test_enums_are_their_values_and_numbers_in_records_keep_their_decimals() -> None:
    assert json_form({Colour.RED: [Number.ONE, 1.23456, None, True]}) == {"red": [1, 1.23456, None, True]}


def test_other_objects_have_none() -> None:
    with pytest.raises(TypeError, match="object has no JSON form"):
        json_form([object()])
