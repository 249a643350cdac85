"""Effect of every field of `contest_config`.

`BEHAVIOURS` and `STORED` name each field of the schema.
"""

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from libs.catalogue.schemas.contest import ContestConfig
from tests.e2e.contest_field_behaviours import BEHAVIOURS, STORED
from tests.support.voting import Api


def fields(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The paths of all members that are no typed objects themselves; through lists as through objects."""
    for name, info in model.model_fields.items():
        inner = [each for each in models_in(info.annotation) if each is not dict]
        if inner:
            yield from fields(inner[0], f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in models_in(part)]


def test_the_table_names_every_field_of_the_schema() -> None:
    assert set(fields(ContestConfig)) == BEHAVIOURS.keys() | STORED


@pytest.mark.parametrize("path", BEHAVIOURS)
async def test_a_field_causes_its_behaviour(api: Api, path: str) -> None:
    await BEHAVIOURS[path](api)
