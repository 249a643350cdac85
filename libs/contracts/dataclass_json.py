"""The JSON form of results: one rule for all dataclasses, in place of a function for each."""

import dataclasses
from base64 import b64encode
from collections.abc import Iterable, Mapping, Set
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

HIDDEN: Final = {"hidden": True}
"""Metadata of a field that is not part of the JSON form."""
DECIMALS: Final = 3
"""Decimals of a dataclass's measurements."""


def json_form(value: object) -> Any:
    """Convert a result into JSON values.

    The members of a dataclass are its public fields that are not `HIDDEN`, and its public properties. Keys become
    texts, sets and iterables lists, bytes base64.
    """
    match value:
        case Enum():
            return value.value
        case None | str() | int() | float():
            return value
        case bytes():
            return b64encode(value).decode()
        case Path():
            return str(value)
        case BaseModel():
            return value.model_dump(mode="json")
        case Mapping():
            return {str(json_form(name)): json_form(one) for name, one in value.items()}
        case tuple() if hasattr(value, "_asdict"):
            return json_form(value._asdict())
        case _ if dataclasses.is_dataclass(value):
            return {name: _rounded(json_form(getattr(value, name))) for name in _members(value.__class__)}
        case Set():
            return sorted(map(json_form, value))
        case Iterable():
            return list(map(json_form, value))
    raise TypeError(f"{type(value).__name__} has no JSON form")


@cache
def _members(kind: Any) -> list[str]:
    names = [field.name for field in dataclasses.fields(kind) if not field.metadata.get("hidden")]
    names += [name for base in kind.__mro__ for name, it in vars(base).items() if isinstance(it, property)]
    return [name for name in names if not name.startswith("_")]


def _rounded(value: Any) -> Any:
    return round(value, DECIMALS) if isinstance(value, float) else value
